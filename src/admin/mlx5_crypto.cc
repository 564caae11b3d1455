// Sources: rdma-core's manual pages mlx5dv_query_device(3), mlx5dv_open_device(3), mlx5dv_crypto_login(3).
#include "admin/mlx5_crypto.h"

#include <dlfcn.h>
#include <fmt/core.h>
#include <infiniband/mlx5dv.h>

#include <cerrno>
#include <memory>
#include <system_error>

namespace verbena::admin {
namespace {

// libibverbs' functions are found through libmlx5, which needs them: so both are of one release.
struct Mlx5Calls {
  decltype(&ibv_get_device_list) devices = nullptr;
  decltype(&ibv_free_device_list) free_devices = nullptr;
  decltype(&ibv_get_device_name) name = nullptr;
  decltype(&ibv_close_device) close = nullptr;
  decltype(&mlx5dv_is_supported) is_mlx5 = nullptr;
  decltype(&mlx5dv_open_device) open = nullptr;
  decltype(&mlx5dv_query_device) query = nullptr;
};

bool find_calls(void* library, Mlx5Calls& to) {
  const auto find = [library](const char* name, auto& into) {
    into = reinterpret_cast<std::remove_reference_t<decltype(into)>>(::dlsym(library, name));
    return into != nullptr;
  };
  return find("ibv_get_device_list", to.devices) && find("ibv_free_device_list", to.free_devices) &&
         find("ibv_get_device_name", to.name) && find("ibv_close_device", to.close) &&
         find("mlx5dv_is_supported", to.is_mlx5) && find("mlx5dv_open_device", to.open) &&
         find("mlx5dv_query_device", to.query);
}

std::string unknown(std::string_view why) { return fmt::format("cannot be told ({})", why); }

std::string judge_caps(const mlx5dv_context& told) {
  if ((told.comp_mask & MLX5DV_CONTEXT_MASK_CRYPTO_OFFLOAD) == 0) return unknown("libmlx5 has no such answer");
  const mlx5dv_crypto_caps& caps = told.crypto_caps;
  constexpr unsigned xts = MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS | MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS_SINGLE_BLOCK |
                           MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS_MULTI_BLOCK;
  if ((caps.flags & MLX5DV_CRYPTO_CAPS_CRYPTO) != 0 && (caps.crypto_engines & xts) != 0) {
    if (caps.failed_selftests != 0) return fmt::format("present, its self-tests failed ({:#x})", caps.failed_selftests);
    return (caps.flags & MLX5DV_CRYPTO_CAPS_WRAPPED_CRYPTO_OPERATIONAL) != 0 ? "present, for wrapped keys alone"
                                                                             : "present";
  }
  // Where the library could not ask the device it tells zeros: so other parts of the same answer show that it could.
  const bool has_asked =
      (told.comp_mask & MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS) != 0 || told.sig_caps.block_size != 0 || caps.flags != 0;
  return has_asked ? "absent" : unknown("the device does not answer");
}

std::string ask(const Mlx5Calls& calls, ibv_device* device) {
  if (!calls.is_mlx5(device)) return unknown("libmlx5 does not know the device");
  // Without DEVX the library has no way to ask, and would say zeros.
  mlx5dv_context_attr how{.flags = MLX5DV_CONTEXT_FLAGS_DEVX, .comp_mask = 0};
  errno = 0;
  const std::unique_ptr<ibv_context, decltype(calls.close)> context(calls.open(device, &how), calls.close);
  if (!context) return unknown("no DEVX: " + std::generic_category().message(errno));
  mlx5dv_context told{};
  told.comp_mask =
      MLX5DV_CONTEXT_MASK_CRYPTO_OFFLOAD | MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS | MLX5DV_CONTEXT_MASK_SIGNATURE_OFFLOAD;
  if (const int error = calls.query(context.get(), &told); error != 0) {
    return unknown(std::generic_category().message(error));
  }
  return judge_caps(told);
}

}  // namespace

std::string inline_aes_xts(const std::string& device, const char* library) {
  // Never unloaded: a provider of libibverbs stays registered with it.
  void* const opened = ::dlopen(library, RTLD_NOW | RTLD_LOCAL);
  if (opened == nullptr) return unknown("libmlx5 is not installed, or cannot be loaded");
  Mlx5Calls calls;
  if (!find_calls(opened, calls)) return unknown("libmlx5 lacks a function");
  int count = 0;
  const std::unique_ptr<ibv_device*, decltype(calls.free_devices)> list(calls.devices(&count), calls.free_devices);
  for (int i = 0; list != nullptr && i < count; ++i) {
    if (device == calls.name(list.get()[i])) return ask(calls, list.get()[i]);
  }
  return unknown("libibverbs does not see the device");
}

}  // namespace verbena::admin
