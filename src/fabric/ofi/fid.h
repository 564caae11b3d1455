// One owner for each libfabric handle. Order of closing matters (endpoint, then what it is bound to, then the domain):
// declare members in the opposite order.
#pragma once

#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_eq.h>
#include <rdma/fi_errno.h>
#include <rdma/fi_rma.h>

#include <memory>

#include "base/result.h"

namespace verbena::fabric::ofi {

struct FidCloser {
  template <class T>
  void operator()(T* fid) const {
    fi_close(&fid->fid);
  }
};
template <class T>
using FidPtr = std::unique_ptr<T, FidCloser>;

struct InfoCloser {
  void operator()(fi_info* info) const { fi_freeinfo(info); }
};
using InfoPtr = std::unique_ptr<fi_info, InfoCloser>;

// A libfabric result (a negative fi_errno) as an Error.
[[nodiscard]] inline std::unexpected<Error> fi_fail(Errc code, const char* context, ssize_t ret) {
  return fail(code, context, static_cast<int>(ret < 0 ? -ret : ret));
}

}  // namespace verbena::fabric::ofi
