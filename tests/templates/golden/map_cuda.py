# map: Arithmetic at every element, such as `z = a*x + y`.
# problem: expr='z = a * x + y', dim=1, dtype=f32, scalars=None, part=None
# schedule: loop='blocks', items=4, blocks=0, block_dim=512
# Rendered by tikgen 0.2.0.
import taichi as ti


@ti.kernel
def map(
    a: ti.f32,
    x: ti.types.ndarray(dtype=ti.f32, ndim=1),
    y: ti.types.ndarray(dtype=ti.f32, ndim=1),
    z: ti.types.ndarray(dtype=ti.f32, ndim=1),
):
    ti.loop_config(block_dim=512)
    for i_block, i_lane in ti.ndrange((z.shape[0] - 1) // 2048 + 1, 512):
        i = i_block * 2048 + i_lane
        if i + 1536 < z.shape[0]:
            new_z_0 = a * x[i] + y[i]
            new_z_1 = a * x[i + 512] + y[i + 512]
            new_z_2 = a * x[i + 1024] + y[i + 1024]
            new_z_3 = a * x[i + 1536] + y[i + 1536]
            z[i] = new_z_0
            z[i + 512] = new_z_1
            z[i + 1024] = new_z_2
            z[i + 1536] = new_z_3
        else:
            # The last item lies behind the elements.
            for i_item in range(3):
                i_rest = i + i_item * 512
                if i_rest < z.shape[0]:
                    z[i_rest] = a * x[i_rest] + y[i_rest]
