#include "net/name_lookup.h"

#include <unistd.h>
#include <boost/asio/io_context.hpp>

#include <algorithm>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>
#include <unordered_map>

namespace verbena::net {
namespace {

using Tcp = boost::asio::ip::tcp;

constexpr size_t lookups_max = 64;

struct NameLookup {
  std::mutex mutex;
  std::condition_variable ended;
  bool done = false;
  TcpEndpoints found;
};

// Those under way, by name. After a fork the child has none: their threads are the parent's.
class Lookups {
 public:
  // The one under way for the name, or null, and then `made` is it from now on. slow_down: too many names.
  Result<std::shared_ptr<NameLookup>> join(const std::string& name, const std::shared_ptr<NameLookup>& made) {
    const std::lock_guard lock(mutex_);
    if (process_ != ::getpid()) under_way_.clear();
    process_ = ::getpid();
    if (const auto one = under_way_.find(name); one != under_way_.end()) return one->second;
    if (under_way_.size() >= lookups_max) return fail(Errc::slow_down, "name: too many are looked up");
    under_way_.emplace(name, made);
    return nullptr;
  }
  void end(const std::string& name) {
    const std::lock_guard lock(mutex_);
    under_way_.erase(name);
  }

 private:
  std::mutex mutex_;
  pid_t process_ = ::getpid();
  std::unordered_map<std::string, std::shared_ptr<NameLookup>> under_way_;
};

// Never destroyed: a thread that looks a name up may outlive main().
Lookups& lookups() {
  static auto* const all = new Lookups;
  return *all;
}

void ask_system(const std::string& host, uint16_t port, TcpEndpoints& found) {
  boost::asio::io_context io;
  Tcp::resolver resolver(io);
  boost::system::error_code ec;
  const auto flags = Tcp::resolver::address_configured | Tcp::resolver::numeric_service;
  for (const auto& entry : resolver.resolve(host, std::to_string(port), flags, ec)) found.push_back(entry.endpoint());
}

Result<std::shared_ptr<NameLookup>> begin_lookup(const std::string& host, uint16_t port, ResolveName resolve) {
  const std::string name = host + ":" + std::to_string(port);
  const auto made = std::make_shared<NameLookup>();
  VB_ASSIGN(auto joined, lookups().join(name, made));
  if (joined) return joined;
  const auto work = [made, name, host, port, resolve] {
    TcpEndpoints found;
    resolve(host, port, found);
    lookups().end(name);
    const std::lock_guard lock(made->mutex);
    made->found = std::move(found);
    made->done = true;
    made->ended.notify_all();
  };
  try {
    std::thread(work).detach();
  } catch (const std::system_error&) {
    lookups().end(name);
    const std::lock_guard lock(made->mutex);
    made->done = true;  // another caller may have joined
    made->ended.notify_all();
    return fail(Errc::slow_down, "name: no thread");
  }
  return made;
}

}  // namespace

Result<TcpEndpoints> look_up_name(const std::string& host, uint16_t port, Deadline until, const Stop& stop,
                                  ResolveName resolve) {
  boost::system::error_code no_address;
  const auto address = boost::asio::ip::make_address(host, no_address);
  if (!no_address) return TcpEndpoints{{address, port}};
  VB_ASSIGN(const auto lookup, begin_lookup(host, port, resolve == nullptr ? &ask_system : resolve));
  constexpr std::chrono::milliseconds slice{50};
  std::unique_lock lock(lookup->mutex);
  while (!lookup->done) {
    if (stop.requested()) return fail(Errc::cancelled, "name: given up");
    if (SteadyClock::now() >= until) return fail(Errc::timed_out, "name: no answer in time");
    lookup->ended.wait_until(lock, std::min(until, SteadyClock::now() + slice));
  }
  if (lookup->found.empty()) return fail(Errc::connection_failed, "name: the host's name is not known");
  return lookup->found;
}

Result<TcpEndpoints> find_addresses(const std::string& host, uint16_t port, const AddressCheck& allowed, Deadline until,
                                    const Stop& stop, ResolveName resolve) {
  VB_ASSIGN(TcpEndpoints found, look_up_name(host, port, until, stop, resolve));
  if (allowed) std::erase_if(found, [&](const auto& one) { return !allowed(one.address().to_string()); });
  if (found.empty()) return fail(Errc::access_denied, "name: no address of the host is public or allowed");
  return found;
}

}  // namespace verbena::net
