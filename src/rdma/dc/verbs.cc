#include "rdma/dc/verbs.h"

#include <dlfcn.h>

namespace verbena::rdma::dc {
namespace {

// Of these libibverbs has macros or functions in its header.
ibv_mr* register_region(ibv_pd* domain, void* memory, size_t size, int access) {
  return ibv_reg_mr(domain, memory, size, access);
}
int ask_for_event(ibv_cq* queue, int solicited_only) { return ibv_req_notify_cq(queue, solicited_only); }
int take_completions(ibv_cq* queue, int entries, ibv_wc* into) { return ibv_poll_cq(queue, entries, into); }

// Without the three of libmlx5.
Verbs of_libibverbs() {
  Verbs verbs{};
  verbs.get_device_list = ibv_get_device_list;
  verbs.free_device_list = ibv_free_device_list;
  verbs.get_device_name = ibv_get_device_name;
  verbs.open_device = ibv_open_device;
  verbs.close_device = ibv_close_device;
  verbs.port = rc::libibverbs_port_calls();
  verbs.alloc_pd = ibv_alloc_pd;
  verbs.dealloc_pd = ibv_dealloc_pd;
  verbs.reg_mr = register_region;
  verbs.dereg_mr = ibv_dereg_mr;
  verbs.create_comp_channel = ibv_create_comp_channel;
  verbs.destroy_comp_channel = ibv_destroy_comp_channel;
  verbs.create_cq = ibv_create_cq;
  verbs.destroy_cq = ibv_destroy_cq;
  verbs.get_cq_event = ibv_get_cq_event;
  verbs.ack_cq_events = ibv_ack_cq_events;
  verbs.req_notify_cq = ask_for_event;
  verbs.poll_cq = take_completions;
  verbs.modify_qp = ibv_modify_qp;
  verbs.destroy_qp = ibv_destroy_qp;
  verbs.qp_to_qp_ex = ibv_qp_to_qp_ex;
  verbs.create_ah = ibv_create_ah;
  verbs.destroy_ah = ibv_destroy_ah;
  return verbs;
}

template <class Function>
bool find(void* library, const char* name, Function& into) {
  into = reinterpret_cast<Function>(::dlsym(library, name));
  return into != nullptr;
}

// The same file is the provider that libibverbs loads for such devices, so the loader has it once.
Verbs load() {
  Verbs verbs = of_libibverbs();
  void* const library = ::dlopen("libmlx5.so.1", RTLD_NOW | RTLD_LOCAL);
  if (library == nullptr) {
    verbs.missing = "token: this server cannot load libmlx5.so.1, and so has no dynamically connected queue pairs";
    return verbs;
  }
  const bool all = find(library, "mlx5dv_is_supported", verbs.is_supported) &&
                   find(library, "mlx5dv_create_qp", verbs.create_qp) &&
                   find(library, "mlx5dv_qp_ex_from_ibv_qp_ex", verbs.qp_ex_from_ibv_qp_ex);
  if (!all) verbs.missing = "token: this server's libmlx5.so.1 is too old for dynamically connected queue pairs";
  return verbs;
}

}  // namespace

const Verbs& load_verbs() {
  static const Verbs verbs = load();
  return verbs;
}

}  // namespace verbena::rdma::dc
