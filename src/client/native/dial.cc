#include "client/native/dial.h"

#include "client/native/handshake.h"
#include "fabric/local/local.h"
#include "fabric/ofi/ofi.h"
#include "fabric/sealed/sealed.h"
#include "fabric/tcp/tcp.h"
#include "memory/cuda.h"

namespace verbena::client {

bool same_provider(std::string_view wanted, std::string_view offered) {
  return wanted == offered || wanted == offered.substr(0, offered.find(';'));
}

NativeDial make_native_dial(const NativeOptions& options) {
  auto pool = fabric::local::make_pool();
  return [pool, timeout = options.connect_timeout](const NativeEndpoint& endpoint,
                                                   const SessionTerms& terms) -> Result<std::unique_ptr<fabric::Link>> {
    if (endpoint.provider == "local") {
      fabric::local::Options local;
      local.handshake_timeout = std::min(local.handshake_timeout, timeout);
      local.pool = pool;
      return fabric::local::connect(endpoint.address, local);
    }
    if (endpoint.provider == "tcp") {
      return fabric::tcp::connect({.address = endpoint.address,
                                   .host = terms.server_ip,
                                   .session = terms.session,
                                   .key = {native::wire::derive_connection(terms.master, endpoint.index)},
                                   .encrypt = endpoint.encrypted,
                                   .message_size_max = endpoint.message_size_max,
                                   .timeout = timeout});
    }
    fabric::ofi::Options ofi;
    ofi.provider = endpoint.provider.substr(0, endpoint.provider.find(';'));
    ofi.message_size_max = endpoint.message_size_max;
    if (endpoint.sealing == fabric::Sealing::none) {
      ofi.device_memory = memory::cuda::Driver::may_be_there();
      return fabric::ofi::connect(ofi, endpoint.address);
    }
    ofi.message_size_max += fabric::sealed::message_overhead();
    VB_ASSIGN(auto link, fabric::ofi::connect(ofi, endpoint.address));
    const fabric::ConnectionKey key{native::wire::derive_connection(terms.master, endpoint.index), endpoint.sealing};
    return fabric::sealed::seal(std::move(link), terms.session, key);
  };
}

}  // namespace verbena::client
