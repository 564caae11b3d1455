#include "net/name_lookup.h"

#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <atomic>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

namespace verbena::net {
namespace {

using Tcp = boost::asio::ip::tcp;

constexpr int lookups_max = 64;
std::atomic<int> lookups_under_way{0};

struct NameLookup {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  TcpEndpoints found;
};

void ask_system(const std::string& host, uint16_t port, TcpEndpoints& found) {
  boost::asio::io_context io;
  Tcp::resolver resolver(io);
  boost::system::error_code ec;
  for (const auto& entry : resolver.resolve(host, std::to_string(port), Tcp::resolver::numeric_service, ec)) {
    found.push_back(entry.endpoint());
  }
}

}  // namespace

Result<TcpEndpoints> look_up_name(const std::string& host, uint16_t port, Deadline until, const Stop& stop,
                                  ResolveName resolve) {
  boost::system::error_code no_address;
  const auto address = boost::asio::ip::make_address(host, no_address);
  if (!no_address) return TcpEndpoints{{address, port}};
  if (lookups_under_way.fetch_add(1) >= lookups_max) {
    lookups_under_way.fetch_sub(1);
    return fail(Errc::slow_down, "name: too many are looked up");
  }
  const auto lookup = std::make_shared<NameLookup>();
  const auto work = [lookup, host, port, resolve = resolve == nullptr ? &ask_system : resolve] {
    TcpEndpoints found;
    resolve(host, port, found);
    lookups_under_way.fetch_sub(1);
    const std::lock_guard lock(lookup->mutex);
    lookup->found = std::move(found);
    lookup->done = true;
    lookup->ended.notify_all();
  };
  try {
    std::thread(work).detach();
  } catch (const std::system_error&) {
    lookups_under_way.fetch_sub(1);
    return fail(Errc::slow_down, "name: no thread");
  }
  constexpr std::chrono::milliseconds slice{50};
  std::unique_lock lock(lookup->mutex);
  while (!lookup->done) {
    if (stop.requested()) return fail(Errc::cancelled, "name: given up");
    if (SteadyClock::now() >= until) return fail(Errc::timed_out, "name: no answer in time");
    lookup->ended.wait_until(lock, std::min(until, SteadyClock::now() + slice));
  }
  if (lookup->found.empty()) return fail(Errc::connection_failed, "name: the host's name is not known");
  return std::move(lookup->found);
}

Result<TcpEndpoints> find_addresses(const std::string& host, uint16_t port, const AddressCheck& allowed, Deadline until,
                                    const Stop& stop, ResolveName resolve) {
  VB_ASSIGN(TcpEndpoints found, look_up_name(host, port, until, stop, resolve));
  if (allowed) std::erase_if(found, [&](const auto& one) { return !allowed(one.address().to_string()); });
  if (found.empty()) return fail(Errc::access_denied, "name: no address of the host is public or allowed");
  return found;
}

}  // namespace verbena::net
