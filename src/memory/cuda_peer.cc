#include "memory/cuda_peer.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>

#include "memory/cuda_context.h"

namespace verbena::memory::cuda {
namespace {

// RDMA devices map a GPU's memory in pages of this size; a smaller range is exported where the allocation is smaller.
constexpr uint64_t device_page = 64 * KiB;

uint64_t down(uint64_t address, uint64_t page) { return address / page * page; }
uint64_t up(uint64_t address, uint64_t page) { return down(address + page - 1, page); }

std::unexpected<Fault> failed(std::string why) { return std::unexpected(Fault{.text = std::move(why)}); }

int attribute_of(const Driver& driver, int number, int attribute) {
  int device = 0, value = 0;
  if (driver.calls().device(&device, number) != success) return 0;
  return driver.calls().device_attribute(&value, attribute, device) == success ? value : 0;
}

}  // namespace

bool has_peer_module(Platform platform) {
  if (const char* said = ::secure_getenv("TEST_VERBENA_PEER_MODULE"); said != nullptr) return *said == '1';
  const auto is_there = [](const char* path) { return ::access(path, F_OK) == 0; };
  if (platform == Platform::rocm) return is_there("/sys/kernel/mm/memory_peers/amdkfd");
  return is_there("/sys/module/nvidia_peermem") || is_there("/sys/module/nv_peer_mem");
}

const char* peer_module(Platform platform) {
  return platform == Platform::rocm ? "the peer memory of amdkfd" : "nvidia_peermem";
}

PeerWrites peer_writes(const Driver& driver, int device) {
  if (attribute_of(driver, device, device_write_order) >= order_for_owner) return PeerWrites::ordered;
  const bool by_host = driver.calls().flush_writes != nullptr &&
                       (attribute_of(driver, device, device_flush_options) & flush_by_host) != 0;
  return by_host ? PeerWrites::flushed : PeerWrites::unsure;
}

Outcome<GivenDmaBuf> GivenDmaBuf::of(int descriptor, uint64_t offset, uint64_t size) {
  const auto refused = [](std::string why) { return std::unexpected(Fault{Fault::Kind::refused, std::move(why)}); };
  GivenDmaBuf given{.descriptor = Fd(::fcntl(descriptor, F_DUPFD_CLOEXEC, 0)), .offset = offset};
  struct stat found{};
  if (!given.descriptor || ::fstat(given.descriptor.get(), &found) != 0) {
    return refused("the dma-buf's descriptor is not open");
  }
  const auto whole = static_cast<uint64_t>(found.st_size);
  if (offset > whole || size > whole - offset) {
    return refused("the window ends beyond its dma-buf, which has " + std::to_string(whole) + " bytes");
  }
  given.number = found.st_ino;
  return given;
}

Outcome<std::shared_ptr<const PeerMemory>> PeerMemory::of(const Driver& driver,
                                                          const std::vector<Allocation>& allocations, uint64_t address,
                                                          uint64_t size, GivenDmaBuf given) {
  const int device = allocations.front().device;
  auto context = context_of(driver, device);
  if (!context) return std::unexpected(std::move(context).error());
  std::shared_ptr<PeerMemory> made(new PeerMemory(driver, *context, device));
  const PeerWrites writes = peer_writes(driver, device);
  if (writes == PeerWrites::unsure) {
    return failed("the device does not order writes of other devices, and its driver does not flush them");
  }
  made->flushes_ = writes == PeerWrites::flushed;
  if (given.descriptor) {
    made->by_address_ = false;  // there may be other memory than the dma-buf's
    made->dma_buf_ = std::move(given.descriptor);
    made->begin_ = address - given.offset;
  } else if (auto exported = made->export_window(allocations, address, size); !exported && !made->by_address()) {
    return failed(exported.error().text + ", and " + peer_module(driver.platform()) + " is not there");
  }
  for (const Allocation& one : allocations) {
    // Asynchronous copies that a caller takes for synchronous ones end before an RDMA device reads.
    constexpr int yes = 1;
    if (driver.calls().set_pointer_attribute != nullptr) {
      static_cast<void>(in_context(driver, *context, "cuPointerSetAttribute", [&](const Calls& c) {
        return c.set_pointer_attribute(&yes, pointer_sync_memops, one.begin);
      }));
    }
    if (auto piece = Physical::behind(driver, one)) made->pieces_.push_back(std::move(*piece));
  }
  return made;
}

Outcome<> PeerMemory::export_window(const std::vector<Allocation>& allocations, uint64_t address, uint64_t size) {
  const uint64_t page = static_cast<uint64_t>(::sysconf(_SC_PAGESIZE));
  const uint64_t first = down(allocations.front().begin, page);
  const uint64_t last = up(allocations.back().begin + allocations.back().size, page);
  const auto range = [&](uint64_t to) {
    return export_range(std::max(down(address, to), first), std::min(up(address + size, to), last));
  };
  auto exported = range(device_page);
  return exported ? exported : range(page);
}

Outcome<> PeerMemory::export_range(uint64_t begin, uint64_t end) {
  const Calls& calls = driver_.calls();
  const bool exports = calls.range_handle != nullptr || calls.range_in_buffer != nullptr;
  if (!exports || attribute_of(driver_, device_, device_dma_buf) == 0) {
    return failed(driver_.path() + " exports no dma-buf");
  }
  int descriptor = -1;
  uint64_t offset = 0;
  const auto ask = [&](unsigned long long flags) {
    return in_context(driver_, context_, "cuMemGetHandleForAddressRange", [&](const Calls& c) {
      if (c.range_in_buffer != nullptr) return c.range_in_buffer(&descriptor, &offset, begin, end - begin);
      return c.range_handle(&descriptor, begin, end - begin, range_as_dma_buf, flags);
    });
  };
  Outcome<> done = failed({});
  const bool over_pcie = driver_.platform() == Platform::cuda && driver_.version() >= version_of_range_over_pcie;
  if (over_pcie) done = ask(range_over_pcie);
  if (!done) done = ask(0);  // most platforms have PCIe alone, and refuse to be asked for it
  if (!done) return done;
  dma_buf_ = Fd(descriptor);
  begin_ = begin - offset;
  return {};
}

bool PeerMemory::is_there(uint64_t address, uint64_t size) const {
  const uint64_t end = address + size;
  return std::ranges::all_of(pieces_, [&](const auto& piece) {
    return piece->begin() >= end || piece->begin() + piece->size() <= address || piece->is_there();
  });
}

Outcome<> PeerMemory::settle_writes() const {
  if (!flushes_) return {};
  return in_context(driver_, context_, "cuFlushGPUDirectRDMAWrites",
                    [](const Calls& c) { return c.flush_writes(flush_current_context, flush_for_owner); });
}

}  // namespace verbena::memory::cuda
