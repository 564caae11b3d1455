#include "native/native.h"

#include <algorithm>
#include <limits>

#include "fabric/sealing_names.h"
#include "native/door_state.h"
#include "native/endpoint.h"
#include "native/session_http.h"

namespace verbena::native {

struct NativeDoor::State {
  std::shared_ptr<DoorState> door;
  std::vector<std::shared_ptr<Endpoint>> endpoints;
};

NativeDoor::NativeDoor(s3::Service& service, const auth::Verifier& verifier, const auth::CredentialStore& credentials,
                       Options options)
    : state_(std::make_shared<State>()) {
  state_->door = std::make_shared<DoorState>(service, verifier, credentials, std::move(options));
}

NativeDoor::~NativeDoor() {
  stop();
  for (const auto& endpoint : state_->endpoints) endpoint->abandon();
}

Result<void> NativeDoor::attach(Core& core, fabric::Port& port, std::string_view provider, std::string address) {
  DoorState& door = *state_->door;
  const size_t message_size_max = std::min<size_t>(port.message_size_max(), std::numeric_limits<uint32_t>::max());
  if (message_size_max < wire::message_size_min)
    return fail(Errc::bad_config, "native: the port's messages are too short");
  if (door.endpoints.size() > std::numeric_limits<uint16_t>::max()) return fail(Errc::bad_config, "native: endpoints");
  // Leaves room for the reply's other fields.
  const size_t inline_max =
      std::min<size_t>(provider == "local" ? door.options.local_inline_max_bytes : door.options.inline_max_bytes,
                       message_size_max - 2048);
  door.endpoints.push_back({.core = core.index(),
                            .provider = std::string(provider),
                            .address = address.empty() ? port.address() : std::move(address),
                            .inline_max_bytes = static_cast<uint32_t>(inline_max),
                            .message_size_max = static_cast<uint32_t>(message_size_max),
                            .encrypted = port.encrypted(),
                            .seals = port.seals(),
                            .takes_plain = port.takes_plain(),
                            .transport = rdma::transport_of(provider)});
  const auto index = static_cast<uint16_t>(door.endpoints.size() - 1);
  port.on_connection([shared = state_->door, index](uint64_t id, fabric::ConnectionKey* key) {
    const auto session = shared->sessions.find(id);
    if (session == nullptr) return false;
    if (key != nullptr) *key = {wire::derive_connection(session->master, index), session->sealing};
    return true;
  });
  state_->endpoints.push_back(std::make_shared<Endpoint>(state_->door, core, port, index));
  state_->endpoints.back()->start();
  return {};
}

void NativeDoor::add_own_port(uint16_t port) { state_->door->own_ports.push_back(port); }

http::Handler NativeDoor::session_handler() {
  return [door = state_->door](http::Exchange& exchange) { return serve_http(door, exchange); };
}

void NativeDoor::stop() {
  state_->door->stopping = true;
  for (const auto& endpoint : state_->endpoints) endpoint->stop_watches();
}

size_t NativeDoor::in_flight() const {
  size_t sum = 0;
  for (const auto& endpoint : state_->endpoints) sum += endpoint->in_flight();
  return sum;
}

size_t NativeDoor::poll() {
  size_t progress = 0;
  for (const auto& endpoint : state_->endpoints) progress += endpoint->poll();
  return progress;
}

NativeDoor::Moved Endpoint::moved() const {
  const auto now = [](const std::atomic<uint64_t>& of) { return of.load(std::memory_order_relaxed); };
  return {info().provider, now(moved_requests_), now(moved_in_), now(moved_out_)};
}

std::vector<NativeDoor::Moved> NativeDoor::moved() const {
  std::vector<Moved> sums;
  for (const auto& endpoint : state_->endpoints) {
    const Moved more = endpoint->moved();
    auto sum = std::ranges::find(sums, more.provider, &Moved::provider);
    if (sum == sums.end()) sum = sums.insert(sums.end(), Moved{.provider = more.provider});
    sum->requests += more.requests;
    sum->bytes_in += more.bytes_in;
    sum->bytes_out += more.bytes_out;
  }
  return sums;
}

namespace {

// Whether endpoint `i` is in `bits`, whose last one stands for all further ones.
bool is_in(uint64_t bits, size_t i) { return (bits >> std::min<size_t>(i, 63) & 1) != 0; }

// "local, tcp": the providers of the endpoints in `bits`.
std::string providers_of(const DoorState& door, uint64_t bits) {
  std::vector<std::string_view> names;
  for (size_t i = 0; i < door.endpoints.size(); ++i) {
    const std::string& name = door.endpoints[i].provider;
    if (is_in(bits, i) && std::ranges::find(names, name) == names.end()) names.push_back(name);
  }
  std::string joined;
  for (const std::string_view name : names) joined.append(joined.empty() ? "" : ", ").append(name);
  return joined;
}

}  // namespace

std::vector<NativeDoor::SessionView> NativeDoor::list_sessions() const {
  const auto now = std::chrono::duration_cast<std::chrono::nanoseconds>(SteadyClock::now().time_since_epoch());
  std::vector<SessionView> views;
  for (const auto& session : state_->door->sessions.all()) {
    const auto read = [](const auto& of) { return of.load(std::memory_order_relaxed); };
    SessionView view;
    view.id = session->id;
    view.identity = session->identity;
    view.peer_address = session->peer_address;
    const uint64_t in_use = read(session->told.endpoints);
    view.providers = providers_of(*state_->door, in_use);
    view.sealed = fabric::name_of(cipher_among(*state_->door, *session, [&](size_t i) { return is_in(in_use, i); }));
    view.opened_us = session->opened_us;
    view.idle = std::max(now - std::chrono::nanoseconds(read(session->last_used_ns)), std::chrono::nanoseconds(0));
    view.requests = read(session->told.requests);
    view.bytes_in = read(session->told.bytes_in);
    view.bytes_out = read(session->told.bytes_out);
    view.windows = read(session->told.windows);
    view.in_flight = static_cast<uint32_t>(std::max<int64_t>(read(session->told.in_flight), 0));
    view.streams = read(session->streams_open);
    view.has_forward_secrecy = session->has_forward_secrecy();
    views.push_back(std::move(view));
  }
  return views;
}

bool NativeDoor::end_session(uint64_t id) {
  DoorState& door = *state_->door;
  if (door.sessions.find(id) == nullptr) return false;
  door.sessions.end(id);  // its streams notify the client at their next sweep
  door.metrics.sessions.set(static_cast<int64_t>(door.sessions.size()));
  return true;
}

size_t NativeDoor::sessions() const { return state_->door->sessions.size(); }

}  // namespace verbena::native
