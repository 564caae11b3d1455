// libcuobjclient.so.1: programs written for NVIDIA's cuObject load it to lend memory for a request. The tokens that it
// makes are of the dialect ofi1, on any fabric.
#include "cuobjclient.h"

#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <new>
#include <string>
#include <type_traits>

#include "device_windows.h"
#include "lender.h"
#include "memory_kind.h"

using verbena::compat::DeviceWindows;
using verbena::compat::Lender;
using verbena::compat::memory_kind;
using verbena::compat::MemoryKind;

namespace {

constexpr size_t registration_max = (size_t{4} << 30) - (size_t{64} << 10);

// What a callback's handle points to.
struct Call {
  void* context;
};

// `otherwise` if the call throws.
template <class Result, class Run>
Result guarded(Result otherwise, Run run) {
  try {
    return run();
  } catch (const std::exception&) {
    return otherwise;
  }
}

}  // namespace

struct __attribute__((visibility("hidden"))) cuObjClient::Impl {
  CUObjIOOps ops;
  std::unique_ptr<Lender> lender;  // none: not connected
  std::unique_ptr<DeviceWindows> devices;

  // The callback with a token, for the caller's memory.
  template <class Run>
  static ssize_t call_with(const std::string& token, Run run, void* context, char* memory, size_t size, loff_t offset) {
    const Call call{context};
    const cufileRDMAInfo info{.version = 1, .desc_len = static_cast<int>(token.size() + 1), .desc_str = token.c_str()};
    return run(&call, memory, size, offset, &info);
  }

  // The same for memory of a GPU, through host memory.
  template <class Run>
  ssize_t call_staged(DeviceWindows::Direction direction, Run run, void* context, char* base, size_t skipped,
                      size_t size, loff_t offset) {
    auto loan = guarded(DeviceWindows::Loan(), [&] { return devices->lend(base, skipped, size, direction); });
    if (loan.block == nullptr) return -EIO;
    const ssize_t moved = call_with(loan.token, run, context, base + skipped, size, offset);
    if (moved < 0) return moved;
    if (static_cast<size_t>(moved) > size) return -EIO;
    return devices->settle(std::move(loan), static_cast<size_t>(moved)) ? moved : -EIO;
  }

  // `run` is one of ops.
  template <class Run, class Memory>
  ssize_t call(Run run, void* context, Memory memory, size_t size, loff_t offset, loff_t memory_offset) {
    if (context == nullptr || memory == nullptr || size == 0 || offset < 0 || memory_offset < 0) return CU_OBJ_FAIL;
    if (run == nullptr) return -EINVAL;
    if (lender == nullptr) return -ENOTCONN;
    auto* const base = const_cast<char*>(memory);
    const auto skipped = static_cast<size_t>(memory_offset);
    if (devices->holds(base, skipped, size)) {
      const auto direction =
          std::is_same_v<Memory, char*> ? DeviceWindows::Direction::to_device : DeviceWindows::Direction::from_device;
      return call_staged(direction, run, context, base, skipped, size, offset);
    }
    const auto token = guarded(std::string(), [&] { return lender->token(base, size, skipped); });
    if (token.empty()) return -EINVAL;
    return call_with(token, run, context, base + skipped, size, offset);
  }
};

cuObjClient::cuObjClient(CUObjIOOps& ops, cuObjProto_enum) : impl_(new(std::nothrow) Impl), reserved_{} {
  if (impl_ == nullptr) return;
  impl_->ops = ops;
  impl_->lender = guarded(std::unique_ptr<Lender>(), [] { return std::make_unique<Lender>(""); });
  if (impl_->lender == nullptr) return;
  impl_->devices =
      guarded(std::unique_ptr<DeviceWindows>(), [&] { return std::make_unique<DeviceWindows>(*impl_->lender); });
  if (impl_->devices == nullptr) impl_->lender.reset();
}

cuObjClient::~cuObjClient() { delete impl_; }

bool cuObjClient::isConnected() { return impl_ != nullptr && impl_->lender != nullptr; }

cuObjErr_enum cuObjClient::cuMemObjGetDescriptor(void* memory, size_t size) {
  if (!isConnected() || size > registration_max) return CU_OBJ_FAIL;
  return guarded(CU_OBJ_FAIL, [&] {
    if (memory_kind(memory) == MemoryKind::cuda_device) {
      impl_->devices->pin(memory, size);
    } else {
      impl_->lender->pin(memory, size);
    }
    return CU_OBJ_SUCCESS;
  });
}

cuObjErr_enum cuObjClient::cuMemObjPutDescriptor(void* memory) {
  if (isConnected()) guarded(false, [&] { return impl_->devices->drop(memory) || impl_->lender->drop(memory); });
  return CU_OBJ_SUCCESS;
}

ssize_t cuObjClient::cuMemObjGetMaxRequestCallbackSize(void* memory) {
  const auto pinned = [&] {
    const size_t of_host = impl_->lender->pinned_from(memory);
    return of_host > 0 ? of_host : impl_->devices->pinned_from(memory);
  };
  const size_t size = isConnected() ? guarded(size_t{0}, pinned) : 0;
  return size > 0 ? static_cast<ssize_t>(size) : -1;
}

cuObjErr_enum cuObjClient::cuMemObjGetRDMAToken(void* memory, size_t size, size_t memory_offset,
                                                cuObjOpType_enum operation, char** token) {
  if (token == nullptr) return CU_OBJ_FAIL;
  *token = nullptr;
  if (!isConnected() || (operation != CUOBJ_GET && operation != CUOBJ_PUT)) return CU_OBJ_FAIL;
  return guarded(CU_OBJ_FAIL, [&] {
    *token = strdup(impl_->lender->token(memory, size, memory_offset).c_str());
    return *token != nullptr ? CU_OBJ_SUCCESS : CU_OBJ_FAIL;
  });
}

cuObjErr_enum cuObjClient::cuMemObjPutRDMAToken(char* token) { return cuMemObjPutRDMAToken(token, 0); }

cuObjErr_enum cuObjClient::cuMemObjPutRDMAToken(char* token, int error) {
  if (token == nullptr) return CU_OBJ_FAIL;
  const auto result = error == 0 || !isConnected() ? CU_OBJ_SUCCESS : guarded(CU_OBJ_FAIL, [&] {
    impl_->lender->failed(token);
    return CU_OBJ_SUCCESS;
  });
  free(token);
  return result;
}

ssize_t cuObjClient::cuObjGet(void* context, void* memory, size_t size, loff_t offset, loff_t memory_offset) {
  if (impl_ == nullptr) return -ENOTCONN;
  return impl_->call(impl_->ops.get, context, static_cast<char*>(memory), size, offset, memory_offset);
}

ssize_t cuObjClient::cuObjPut(void* context, void* memory, size_t size, loff_t offset, loff_t memory_offset) {
  if (impl_ == nullptr) return -ENOTCONN;
  return impl_->call(impl_->ops.put, context, static_cast<const char*>(memory), size, offset, memory_offset);
}

void* cuObjClient::getCtx(const void* handle) {
  return handle != nullptr ? static_cast<const Call*>(handle)->context : nullptr;
}

cuObjMemoryType_enum cuObjClient::getMemoryType(const void* memory) {
  return memory != nullptr ? static_cast<cuObjMemoryType_enum>(memory_kind(memory)) : CUOBJ_MEMORY_INVALID;
}

void cuObjClient::setupTelemetry(bool, std::ostream*) {}
void cuObjClient::shutdownTelemetry() {}
void cuObjClient::setTelemFlags(unsigned) {}
void cuObjClient::setTelemFlags(unsigned, unsigned) {}
void cuObjClient::setOpFreq(unsigned, unsigned) {}
