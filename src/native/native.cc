#include "native/native.h"

#include <algorithm>
#include <limits>

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
  // Room for the reply's other fields stays beside the bytes.
  const size_t inline_max =
      std::min<size_t>(provider == "local" ? door.options.local_inline_max_bytes : door.options.inline_max_bytes,
                       message_size_max - 2048);
  door.endpoints.push_back({.core = core.index(),
                            .provider = std::string(provider),
                            .address = address.empty() ? port.address() : std::move(address),
                            .inline_max_bytes = static_cast<uint32_t>(inline_max),
                            .message_size_max = static_cast<uint32_t>(message_size_max),
                            .encrypted = port.encrypted()});
  const auto index = static_cast<uint16_t>(door.endpoints.size() - 1);
  port.on_connection([shared = state_->door, index](uint64_t id, fabric::ConnectionKey* key) {
    const auto session = shared->sessions.find(id);
    if (session == nullptr) return false;
    if (key != nullptr) key->bytes = wire::derive_connection(session->master, index);
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

void NativeDoor::stop() { state_->door->stopping = true; }

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

size_t NativeDoor::sessions() const { return state_->door->sessions.size(); }

}  // namespace verbena::native
