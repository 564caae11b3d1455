// The calls of libibverbs and libmlx5 behind dynamically connected (DC) queue pairs, as a table: a server needs libmlx5
// only where it has such a device, and tests put a double there. Each does what rdma-core's manual page of its name
// says.
#pragma once

#include <infiniband/mlx5dv.h>
#include <infiniband/verbs.h>

#include "rdma/rc/ibv_port.h"

namespace verbena::rdma::dc {

struct Verbs {
  ibv_device** (*get_device_list)(int* count);
  void (*free_device_list)(ibv_device** list);
  const char* (*get_device_name)(ibv_device* device);
  ibv_context* (*open_device)(ibv_device* device);
  int (*close_device)(ibv_context* context);
  rc::PortCalls port;
  ibv_pd* (*alloc_pd)(ibv_context* context);
  int (*dealloc_pd)(ibv_pd* domain);
  ibv_mr* (*reg_mr)(ibv_pd* domain, void* memory, size_t size, int access);
  int (*dereg_mr)(ibv_mr* region);
  ibv_comp_channel* (*create_comp_channel)(ibv_context* context);
  int (*destroy_comp_channel)(ibv_comp_channel* channel);
  ibv_cq* (*create_cq)(ibv_context* context, int entries, void* user, ibv_comp_channel* channel, int vector);
  int (*destroy_cq)(ibv_cq* queue);
  int (*get_cq_event)(ibv_comp_channel* channel, ibv_cq** queue, void** user);
  void (*ack_cq_events)(ibv_cq* queue, unsigned count);
  int (*req_notify_cq)(ibv_cq* queue, int solicited_only);
  int (*poll_cq)(ibv_cq* queue, int entries, ibv_wc* into);
  int (*modify_qp)(ibv_qp* pair, ibv_qp_attr* attr, int mask);
  int (*destroy_qp)(ibv_qp* pair);
  ibv_qp_ex* (*qp_to_qp_ex)(ibv_qp* pair);
  ibv_ah* (*create_ah)(ibv_pd* domain, ibv_ah_attr* attr);
  int (*destroy_ah)(ibv_ah* handle);
  // Of libmlx5; null where `missing` says why:
  bool (*is_supported)(ibv_device* device);
  ibv_qp* (*create_qp)(ibv_context* context, ibv_qp_init_attr_ex* attr, mlx5dv_qp_init_attr* mlx5_attr);
  mlx5dv_qp_ex* (*qp_ex_from_ibv_qp_ex)(ibv_qp_ex* pair);
  const char* missing;
};

// The real ones. libmlx5.so.1 (Debian: ibverbs-providers) is loaded by the first call.
const Verbs& load_verbs();

}  // namespace verbena::rdma::dc
