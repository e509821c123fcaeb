# map: Arithmetic at every element, such as `z = a*x + y`.
# problem: expr='z = a * x + y', dim=1, dtype=f32, scalars=None
# schedule: loop='blocks', items=16, blocks=8448, block_dim=512
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
    for i_block, i_lane in ti.ndrange(8448, 512):
        for i_turn in range((z.shape[0] - 1) // 69206016 + 1):
            i = (i_turn * 8448 + i_block) * 8192 + i_lane
            if i + 7680 < z.shape[0]:
                new_z_0 = a * x[i] + y[i]
                new_z_1 = a * x[i + 512] + y[i + 512]
                new_z_2 = a * x[i + 1024] + y[i + 1024]
                new_z_3 = a * x[i + 1536] + y[i + 1536]
                new_z_4 = a * x[i + 2048] + y[i + 2048]
                new_z_5 = a * x[i + 2560] + y[i + 2560]
                new_z_6 = a * x[i + 3072] + y[i + 3072]
                new_z_7 = a * x[i + 3584] + y[i + 3584]
                new_z_8 = a * x[i + 4096] + y[i + 4096]
                new_z_9 = a * x[i + 4608] + y[i + 4608]
                new_z_10 = a * x[i + 5120] + y[i + 5120]
                new_z_11 = a * x[i + 5632] + y[i + 5632]
                new_z_12 = a * x[i + 6144] + y[i + 6144]
                new_z_13 = a * x[i + 6656] + y[i + 6656]
                new_z_14 = a * x[i + 7168] + y[i + 7168]
                new_z_15 = a * x[i + 7680] + y[i + 7680]
                z[i] = new_z_0
                z[i + 512] = new_z_1
                z[i + 1024] = new_z_2
                z[i + 1536] = new_z_3
                z[i + 2048] = new_z_4
                z[i + 2560] = new_z_5
                z[i + 3072] = new_z_6
                z[i + 3584] = new_z_7
                z[i + 4096] = new_z_8
                z[i + 4608] = new_z_9
                z[i + 5120] = new_z_10
                z[i + 5632] = new_z_11
                z[i + 6144] = new_z_12
                z[i + 6656] = new_z_13
                z[i + 7168] = new_z_14
                z[i + 7680] = new_z_15
            elif i < z.shape[0]:
                for i_item in range(16):
                    i_rest = i + i_item * 512
                    if i_rest < z.shape[0]:
                        z[i_rest] = a * x[i_rest] + y[i_rest]
