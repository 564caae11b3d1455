#include "base/name_lookup.h"

#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

namespace verbena {
namespace {

using Tcp = boost::asio::ip::tcp;

constexpr int lookups_max = 64;
std::atomic<int> lookups_under_way{0};

struct NameLookup {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  std::vector<Tcp::endpoint> found;
};

void ask_system(const std::string& host, uint16_t port, std::vector<Tcp::endpoint>& found) {
  boost::asio::io_context io;
  Tcp::resolver resolver(io);
  boost::system::error_code ec;
  for (const auto& entry : resolver.resolve(host, std::to_string(port), Tcp::resolver::numeric_service, ec)) {
    found.push_back(entry.endpoint());
  }
}

}  // namespace

Result<std::vector<Tcp::endpoint>> look_up_name(const std::string& host, uint16_t port, Deadline until,
                                                const std::atomic<bool>& stop, ResolveName resolve) {
  boost::system::error_code no_address;
  const auto address = boost::asio::ip::make_address(host, no_address);
  if (!no_address) return std::vector{Tcp::endpoint(address, port)};
  if (lookups_under_way.fetch_add(1) >= lookups_max) {
    lookups_under_way.fetch_sub(1);
    return fail(Errc::slow_down, "name: too many are looked up");
  }
  const auto lookup = std::make_shared<NameLookup>();
  const auto work = [lookup, host, port, resolve = resolve == nullptr ? &ask_system : resolve] {
    std::vector<Tcp::endpoint> found;
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
    if (stop.load()) return fail(Errc::cancelled, "name: given up");
    if (SteadyClock::now() >= until) return fail(Errc::timed_out, "name: no answer in time");
    lookup->ended.wait_until(lock, std::min(until, SteadyClock::now() + slice));
  }
  if (lookup->found.empty()) return fail(Errc::connection_failed, "name: the host's name is not known");
  return std::move(lookup->found);
}

}  // namespace verbena
