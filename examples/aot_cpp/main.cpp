/*
 * The heat equation in a cube with cold walls, 100 explicit steps by a graph of the bundle "heat",
 * compared with what NumPy made of the same start.
 *
 * Usage: heat_cpp [x64 | vulkan | cuda], in the folder that export.py wrote
 */
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <fstream>
#include <stdexcept>
#include <string>
#include <vector>

#include "heat.hpp"

#ifndef HEAT_BUNDLE_DIR // CMake knows it.
#define HEAT_BUNDLE_DIR "heat"
#endif

namespace {

constexpr int n = 34;
constexpr int steps = 100;
constexpr float ratio = 0.15f; // alpha * dt / h^2
constexpr double tolerance = 1e-5;

std::vector<float> read_field(const std::string &path) {
  std::vector<float> field(n * n * n);
  std::ifstream file(path, std::ios::binary);
  if (!file.read(reinterpret_cast<char *>(field.data()),
                 static_cast<std::streamsize>(field.size() * sizeof(float)))) {
    throw std::runtime_error(path + " is missing or too short; run export.py");
  }
  return field;
}

TiArch arch_of(const std::string &name) {
  return name == "vulkan" ? TI_ARCH_VULKAN : name == "cuda" ? TI_ARCH_CUDA : TI_ARCH_X64;
}

std::vector<float> solve(const std::vector<float> &start, TiArch arch) {
  heat::Bundle bundle(HEAT_BUNDLE_DIR, arch);
  heat::Array<float> u(bundle, {n, n, n}, start);
  heat::Array<float> v(bundle, {n, n, n});
  for (int step = 0; step < steps; step += 2) {
    bundle.two_steps(u, v, ratio); // u to v, and v to u
  }
  return u.download();
}

} // namespace

int main(int argc, char **argv) try {
  const std::string name = argc > 1 ? argv[1] : "x64";
  const std::vector<float> result = solve(read_field("start.f32"), arch_of(name));
  const std::vector<float> expected = read_field("expected.f32");
  double error = 0;
  for (std::size_t i = 0; i < result.size(); i++) {
    error = std::max(error, std::abs(double{result[i]} - double{expected[i]}));
  }
  std::printf("%s: %d steps of %d^3 points, largest error against NumPy %.1e\n", name.c_str(),
              steps, n, error);
  return error < tolerance ? EXIT_SUCCESS : EXIT_FAILURE;
} catch (const std::exception &error) {
  std::fprintf(stderr, "%s\n", error.what());
  return EXIT_FAILURE;
}
