#include "fabric/ofi/device.h"

#include <infiniband/verbs.h>

#include <memory>

namespace verbena::fabric::ofi {

std::optional<DeviceLimits> device_limits(const std::string& device) {
  int count = 0;
  const std::unique_ptr<ibv_device*, decltype(&ibv_free_device_list)> list(ibv_get_device_list(&count),
                                                                           ibv_free_device_list);
  for (int i = 0; list != nullptr && i < count; ++i) {
    if (device != ibv_get_device_name(list.get()[i])) continue;
    const std::unique_ptr<ibv_context, decltype(&ibv_close_device)> context(ibv_open_device(list.get()[i]),
                                                                            ibv_close_device);
    ibv_device_attr attr{};
    if (!context || ibv_query_device(context.get(), &attr) != 0) return std::nullopt;
    return DeviceLimits{.work_requests = static_cast<size_t>(attr.max_qp_wr),
                        .scatter_entries = static_cast<size_t>(attr.max_sge),
                        .completions = static_cast<size_t>(attr.max_cqe)};
  }
  return std::nullopt;
}

}  // namespace verbena::fabric::ofi
