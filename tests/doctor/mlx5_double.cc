// A double of libmlx5 with what it needs of libibverbs: its devices answer in different ways, told by their names.
#include <infiniband/mlx5dv.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <string_view>

namespace {

constexpr std::array names{"xts",  "single", "wrapped", "failed",  "without",
                           "mute", "old",    "broken",  "no_devx", "other"};
std::array<ibv_device, names.size()> all{};
std::array<ibv_device*, names.size() + 1> list{};
int opened = 0;

}  // namespace

extern "C" {

int mlx5_double_open_contexts() { return opened; }

ibv_device** ibv_get_device_list(int* count) {
  for (size_t i = 0; i < names.size(); ++i) {
    std::strncpy(all[i].name, names[i], sizeof all[i].name - 1);
    list[i] = &all[i];
  }
  *count = static_cast<int>(names.size());
  return list.data();
}
void ibv_free_device_list(ibv_device**) {}
const char* ibv_get_device_name(ibv_device* device) { return device->name; }
int ibv_close_device(ibv_context* context) {
  --opened;
  delete context;
  return 0;
}
bool mlx5dv_is_supported(ibv_device* device) { return std::string_view(device->name) != "other"; }

ibv_context* mlx5dv_open_device(ibv_device* device, mlx5dv_context_attr* how) {
  if ((how->flags & MLX5DV_CONTEXT_FLAGS_DEVX) == 0 || std::string_view(device->name) == "no_devx") {
    errno = EPERM;
    return nullptr;
  }
  ++opened;
  auto* const context = new ibv_context{};
  context->device = device;
  return context;
}

int mlx5dv_query_device(ibv_context* context, mlx5dv_context* told) {
  const std::string_view name = context->device->name;
  const uint64_t asked = told->comp_mask;
  told->comp_mask = 0;
  if (name == "broken") return EIO;
  if (name == "old") return 0;
  if ((asked & MLX5DV_CONTEXT_MASK_CRYPTO_OFFLOAD) == 0) return EINVAL;
  told->comp_mask = MLX5DV_CONTEXT_MASK_CRYPTO_OFFLOAD;
  mlx5dv_crypto_caps& caps = told->crypto_caps;
  if (name != "mute" && (asked & MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS) != 0) {
    told->comp_mask |= MLX5DV_CONTEXT_MASK_NUM_LAG_PORTS;
    told->num_lag_ports = 2;
  }
  if (name == "mute" || name == "without") return 0;
  caps.flags = MLX5DV_CRYPTO_CAPS_CRYPTO;
  caps.crypto_engines =
      name == "single" ? MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS_SINGLE_BLOCK : MLX5DV_CRYPTO_ENGINES_CAP_AES_XTS;
  if (name == "wrapped") caps.flags |= MLX5DV_CRYPTO_CAPS_WRAPPED_CRYPTO_OPERATIONAL;
  if (name == "failed") caps.failed_selftests = 0x20;
  return 0;
}
}
