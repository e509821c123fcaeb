/*
 * Checks what the C++ wrapper of a bundle does beyond the header; returns how many checks fail.
 *
 * Usage: checks BUNDLE ARCH [MESSAGE]; with a message a file of the kernel fill_f32 is not as it
 * was. ARCH is x64, cuda or vulkan. test_aot_c.py exports the bundle "box".
 */
#include <cstdio>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "box.hpp"

static int failures = 0;

static void check(bool holds, const char *what) {
  if (!holds) {
    std::printf("%s\n", what);
    failures++;
  }
}

template <typename Call>
static void refused(Call call, int status, const char *text) {
  try {
    call();
    check(false, text);
  } catch (const box::Error &error) {
    check(error.status() == status && std::strstr(error.what(), text) != nullptr, error.what());
  }
}

static TiArch arch_named(const std::string &name) {
  if (name == "cuda") {
    return TI_ARCH_CUDA;
  }
  return name == "vulkan" ? TI_ARCH_VULKAN : TI_ARCH_X64;
}

int main(int argc, char **argv) {
  const std::string folder = argv[1];
  const TiArch arch = arch_named(argv[2]);
  refused([&] { box::Bundle("no/such/folder", arch); }, BOX_NOT_FOUND, "not a bundle");

  box::Bundle bundle(folder, arch);
  if (argc == 4) {
    box::Array<float> array(bundle, {3});
    refused([&] { bundle.fill(1.0f, 0, array); }, BOX_NOT_FOUND, argv[3]);
    return failures;
  }
  const std::vector<float> some = {0.5f, 1.5f, -2.5f};
  box::Array<float> floats(bundle, {3}, some);
  box::Array<std::int64_t> longs(bundle, {3});
  check(floats.download() == some, "upload and download");
  check(floats.size() == 3 && floats.shape() == std::vector<std::int64_t>{3}, "shape");

  // Overloads choose by the element type; no digit of a long is lost.
  const std::int64_t big = (std::int64_t{1} << 62) + 1;
  bundle.fill(big, 1, longs);
  bundle.fill(0.25f, 1, floats);
  check(longs.download() == std::vector<std::int64_t>{0, big, big}, "longs");
  check(floats.download() == std::vector<float>{0.5f, 0.25f, 0.25f}, "floats");

  box::Array<float> moved = std::move(floats);
  check(moved.size() == 3 && floats.size() == 0, "moved");
  refused([&] { bundle.fill(0.25f, 1, floats); }, BOX_BAD_ARGUMENT, "NULL");
  refused([&] { moved.upload({1, 2}); }, BOX_BAD_ARGUMENT, "takes 3 values; got 2");
  refused([&] { box::Array<float>(bundle, {0}); }, BOX_BAD_ARGUMENT, "extent 0");
  floats = box::Array<float>(bundle, {2, 2, 2});
  refused([&] { bundle.fill(1.0f, 0, floats); }, BOX_BAD_ARGUMENT, "f32[2, 2, 2]");

  bundle.close();
  check(moved.download().size() == 3, "an array keeps its bundle open");
  refused([&] { bundle.wait(); }, BOX_BAD_ARGUMENT, "bundle is NULL");
  refused([&] { bundle.fill(1.0f, 0, moved); }, BOX_BAD_ARGUMENT, "bundle is NULL");
  refused([&] { box::Array<float>(bundle, {2}); }, BOX_BAD_ARGUMENT, "bundle is NULL");
  return failures;
}
