// DEVICE and DEVICE_END: memory of a GPU that a client shares, for windows in which the server lets the GPU copy.
#include <algorithm>

#include "base/elsewhere.h"
#include "base/log.h"
#include "fabric/device.h"
#include "memory/cuda_devices.h"
#include "native/endpoint.h"
#include "native/wire/device.h"

namespace verbena::native {
namespace {

using memory::cuda::Devices;
using memory::cuda::Fault;
using memory::cuda::Mapped;
using memory::cuda::Platform;
static_assert(wire::device_pieces_max <= fabric::handed_over_max);
using Opened = memory::cuda::Outcome<std::shared_ptr<Mapped>>;

Errc code_of(const Fault& fault) {
  return fault.kind == Fault::Kind::refused ? Errc::invalid_argument : Errc::not_implemented;
}

Platform platform_of(const wire::Device& device) { return device.of_hip() ? Platform::rocm : Platform::cuda; }

// The client has handed over a descriptor for each piece. None: memory by its handle.
Result<memory::cuda::Pieces> pieces_of(const Op& op, fabric::DevicePort& port) {
  memory::cuda::Pieces memory{.device = op.device.device, .platform = platform_of(op.device)};
  if (!op.device.in_pieces()) return memory;
  VB_ASSIGN(fabric::HandedOver given, port.take_handed_over(op.stream->peer, op.device.handed_over));
  if (given.descriptors.size() != op.device.pieces.size()) {
    return fail(Errc::invalid_argument, "native: a GPU's memory has other pieces");
  }
  for (size_t i = 0; i < given.descriptors.size(); ++i) {
    memory.pieces.push_back({given.descriptors[i], op.device.pieces[i]});
  }
  memory.open = std::move(given.open);
  return memory;
}

Task<Result<void>> share(Op& op) {
  DoorState& door = op.endpoint->door();
  auto* const port = dynamic_cast<fabric::DevicePort*>(&op.endpoint->port());
  const std::shared_ptr<Devices> devices = door.devices();
  if (port == nullptr || devices == nullptr || op.device.kind < wire::device_by_handle ||
      op.device.kind > wire::device_by_hip_pieces) {
    co_return fail(Errc::not_implemented, "native: this server lets no GPU copy");
  }
  VB_CO_ASSIGN(auto pieces, pieces_of(op, *port));
  const DeviceLimits::Wish wish{op.device.size, std::max<size_t>(op.device.pieces.size(), 1)};
  VB_CO_ASSIGN(auto place, door.device_limits.take(op.stream->session->id, account_of(op), wish));
  const memory::cuda::Exported allocation{.device = op.device.device,
                                          .handle = op.device.handle,
                                          .size = op.device.size,
                                          .platform = platform_of(op.device)};
  const auto begin = [&](auto ended) {
    if (op.device.in_pieces()) return devices->map(std::exchange(pieces, {}), std::move(ended));
    devices->map(allocation, std::move(ended));
  };
  Opened opened = co_await elsewhere<Opened>(begin);
  if (!opened) {
    log::debug("gpudirect: memory refused session={:016x}: {}", op.stream->session->id, opened.error().text);
    co_return fail(code_of(opened.error()), "native: the GPU's driver");
  }
  (*opened)->hold(std::move(place));
  if (op.stream->closed) co_return fail(Errc::closed, "native: the session is gone");
  VB_CO_ASSIGN(const uint64_t number, port->add_device_memory(op.stream->peer, std::move(*opened), devices));
  wire::Writer out(op.body_space());
  encode(out, wire::DeviceShared{number});
  op.body_size = out.size();
  co_return Result<void>{};
}

}  // namespace

bool load_device(Op& op, Bytes body) {
  const auto request = wire::decode_device(body);
  if (!request) return false;
  op.bucket.clear();
  op.list.prefix.clear();
  op.device = *request;
  return true;
}

bool load_device_end(Op& op, Bytes body) {
  const auto request = wire::decode_device_end(body);
  if (!request) return false;
  op.bucket.clear();
  op.list.prefix.clear();
  op.device = {.size = request->number};
  return true;
}

Task<void> serve_device(OpPtr op) {
  auto done = co_await share(*op);
  if (!done) op->fail(done.error().code);
  Endpoint& endpoint = *op->endpoint;
  endpoint.reply(std::move(op));
}

// Memory that is not shared any more is no error. The answer comes when it is unmapped: its owner may free it then.
Task<void> serve_device_end(OpPtr op) {
  auto* const port = dynamic_cast<fabric::DevicePort*>(&op->endpoint->port());
  if (const auto fence = port == nullptr ? nullptr : port->remove_device_memory(op->stream->peer, op->device.size)) {
    const auto begin = [&](auto ended) { fence([ended] { ended(true); }); };
    co_await elsewhere<bool>(begin);
  }
  op->fail(Errc::ok);
  Endpoint& endpoint = *op->endpoint;
  endpoint.reply(std::move(op));
}

}  // namespace verbena::native
