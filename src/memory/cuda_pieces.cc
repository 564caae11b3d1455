// Physical memory of clients, mapped side by side at addresses that are reserved for it.
#include <limits>

#include "memory/cuda_device.h"

namespace verbena::memory::cuda {
namespace {

std::unexpected<Fault> refused(Fault fault) {
  fault.kind = Fault::Kind::refused;
  return std::unexpected(std::move(fault));
}

// 0: there is nothing, or more than a number can say.
uint64_t size_of(const Pieces& memory) {
  uint64_t all = 0;
  for (const Pieces::Piece& piece : memory.pieces) {
    if (piece.size == 0 || piece.size > std::numeric_limits<uint64_t>::max() - all) return 0;
    all += piece.size;
  }
  return all;
}

}  // namespace

Outcome<std::shared_ptr<Mapped>> Device::open(const Pieces& memory) {
  const uint64_t all = size_of(memory);
  if (all == 0) return refused({.text = "pieces of memory without a size"});
  if (!driver_.calls().shares_physical()) return refused({.text = driver_.path() + " maps no descriptors"});
  uint64_t address = 0;
  auto done = call("cuMemAddressReserve", [&](const Calls& c) { return c.reserve(&address, all, 0, 0, 0); });
  if (!done) return refused(std::move(done).error());
  std::vector<uint64_t> sizes;
  uint64_t end = address;
  for (const Pieces::Piece& piece : memory.pieces) {
    if (done = open(piece, end); !done) break;
    sizes.push_back(piece.size);
    end += piece.size;
  }
  if (done) {
    const AccessWish wish{.location = {location_device, number_}, .flags = access_both};
    done = call("cuMemSetAccess", [&](const Calls& c) { return c.set_access(address, all, &wish, 1); });
  }
  if (!done) {
    close(address, sizes);
    free_addresses(address, all);
    return refused(std::move(done).error());
  }
  DirectMetrics::get().mapped.add(static_cast<int64_t>(all));
  return std::make_shared<Mapped>(shared_from_this(), address, all, std::move(sizes));
}

// The mapping keeps the physical memory. A piece that has less of it than its owner says is refused by the driver.
Outcome<> Device::open(const Pieces::Piece& piece, uint64_t at) {
  uint64_t handle = 0;
  void* const descriptor = reinterpret_cast<void*>(static_cast<uintptr_t>(piece.descriptor));
  auto done = call("cuMemImportFromShareableHandle",
                   [&](const Calls& c) { return c.physical_import(&handle, descriptor, handle_is_descriptor); });
  if (!done) return done;
  PhysicalFacts facts;
  done =
      call("cuMemGetAllocationPropertiesFromHandle", [&](const Calls& c) { return c.physical_facts(&facts, handle); });
  const Location& place = facts.location;
  if (done && (facts.type != memory_pinned || place.type != location_device || place.id != number_)) {
    done = refused({.text = "the memory is not of the device that its owner says"});
  }
  if (done) done = call("cuMemMap", [&](const Calls& c) { return c.map(at, piece.size, 0, handle, 0); });
  complain(call("cuMemRelease", [&](const Calls& c) { return c.physical_release(handle); }));
  return done;
}

void Device::close(uint64_t at, std::span<const uint64_t> pieces) {
  for (const uint64_t size : pieces) {
    complain(call("cuMemUnmap", [&](const Calls& c) { return c.unmap(at, size); }));
    at += size;
  }
}

void Device::free_addresses(uint64_t address, uint64_t size) {
  complain(call("cuMemAddressFree", [&](const Calls& c) { return c.unreserve(address, size); }));
}

}  // namespace verbena::memory::cuda
