// Options of the router and its verbs.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "base/aead_available.h"
#include "base/bytes.h"
#include "base/rdma_encryption.h"

namespace verbena::rdma::rc {
struct ReliableConnections;
}

namespace verbena::auth {
class NetworkRules;
}

namespace verbena::s3 {

struct RouterOptions {
  std::string domain;  // virtual-host addressing: bucket.<domain>; empty: path-style, and *.localhost
  // A token's transfer is given up after this long (clients give up after about 10 s).
  std::chrono::milliseconds rdma_deadline{8'000};
  // A token PUT has, in addition, the time for its size at this rate (bytes per second): at most 80 s more for 5 GiB.
  // Clients that put large windows wait accordingly.
  uint64_t rdma_rate_min = 64 * MiB;
  // Dialects over reliable connections; null: they are answered as not served.
  rdma::rc::ReliableConnections* connections = nullptr;
  const auth::NetworkRules* networks = nullptr;  // of clients' addresses; null: none
  // Of payload by RDMA, where no network rule says more.
  RdmaEncryption encryption = RdmaEncryption::preferred;
  bool (*has_aead)(AeadKind) = aead_available;
};

}  // namespace verbena::s3
