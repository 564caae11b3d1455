#include "base/client_counts.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

#include <cstring>
#include <mutex>
#include <unordered_map>

namespace verbena {
namespace {

std::string text_of(const in_addr& address) {
  char text[INET_ADDRSTRLEN];
  return ::inet_ntop(AF_INET, &address, text, sizeof text) == nullptr ? "" : text;
}

std::string client_of(in6_addr address) {
  if (IN6_IS_ADDR_V4MAPPED(&address)) {
    in_addr v4{};
    std::memcpy(&v4, address.s6_addr + 12, sizeof v4);
    return text_of(v4);
  }
  const bool alone = IN6_IS_ADDR_LOOPBACK(&address) || IN6_IS_ADDR_LINKLOCAL(&address);
  if (!alone) std::memset(address.s6_addr + 8, 0, 8);
  char text[INET6_ADDRSTRLEN];
  if (::inet_ntop(AF_INET6, &address, text, sizeof text) == nullptr) return "";
  return alone ? text : std::string(text) + "/64";
}

}  // namespace

std::string client_of(std::string_view address) {
  const std::string text(address.substr(0, address.find('%')));  // without the scope of a link-local address
  in6_addr v6{};
  if (::inet_pton(AF_INET6, text.c_str(), &v6) == 1) return client_of(v6);
  return std::string(address);
}

std::string client_of(const sockaddr& address) {
  if (address.sa_family == AF_INET) return text_of(reinterpret_cast<const sockaddr_in&>(address).sin_addr);
  if (address.sa_family == AF_INET6) return client_of(reinterpret_cast<const sockaddr_in6&>(address).sin6_addr);
  return "";
}

bool is_loopback_client(std::string_view client) {
  in_addr v4{};
  if (::inet_pton(AF_INET, std::string(client).c_str(), &v4) == 1) return ntohl(v4.s_addr) >> 24 == IN_LOOPBACKNET;
  return client == "::1";
}

struct ClientCounts::Table {
  Limits limits;
  mutable std::mutex mutex;
  std::unordered_map<std::string, size_t> counts;  // none is 0
};

struct ClientCounts::Held {
  Held(std::shared_ptr<Table> t, std::string c) : table(std::move(t)), client(std::move(c)) {}
  Held(const Held&) = delete;
  ~Held() {
    const std::lock_guard lock(table->mutex);
    if (const auto found = table->counts.find(client); --found->second == 0) table->counts.erase(found);
  }
  const std::shared_ptr<Table> table;
  const std::string client;
};

ClientCounts::ClientCounts(Limits limits) : table_(std::make_shared<Table>()) { table_->limits = limits; }

ClientCounts::Hold ClientCounts::try_hold(std::string_view client) {
  std::string name(client);
  {
    const std::lock_guard lock(table_->mutex);
    const auto found = table_->counts.find(name);
    if (found != table_->counts.end()) {
      if (table_->limits.each_max != 0 && found->second >= table_->limits.each_max) return nullptr;
      ++found->second;
    } else {
      if (table_->limits.clients_max != 0 && table_->counts.size() >= table_->limits.clients_max) return nullptr;
      table_->counts.emplace(name, 1);
    }
  }
  return std::make_shared<const Held>(table_, std::move(name));
}

size_t ClientCounts::count(std::string_view client) const {
  const std::lock_guard lock(table_->mutex);
  const auto found = table_->counts.find(std::string(client));
  return found == table_->counts.end() ? 0 : found->second;
}

size_t ClientCounts::clients() const {
  const std::lock_guard lock(table_->mutex);
  return table_->counts.size();
}

const ClientCounts::Limits& ClientCounts::limits() const { return table_->limits; }

}  // namespace verbena
