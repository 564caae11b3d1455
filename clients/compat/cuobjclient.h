// The binary interface of NVIDIA's libcuobjclient.so.1: its names, values and sizes, as NVIDIA's documentation of the
// cuObjClient API and programs that load the library show them (docs/compat.md). Written here, and not NVIDIA's header.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <iosfwd>

// What a callback is told: the token, which ends with a zero that desc_len counts.
struct cufileRDMAInfo {
  int version;
  int desc_len;
  const char* desc_str;
};

enum cuObjErr_enum { CU_OBJ_SUCCESS = 0, CU_OBJ_FAIL = 1 };
enum cuObjProto_enum { CUOBJ_PROTO_RDMA_DC_V1 = 1001, CUOBJ_PROTO_MAX = 1003 };
enum cuObjOpType_enum { CUOBJ_GET = 0, CUOBJ_PUT = 1, CUOBJ_INVALID = 9999 };
enum cuObjMemoryType_enum {
  CUOBJ_MEMORY_SYSTEM = 0,
  CUOBJ_MEMORY_CUDA_MANAGED = 1,
  CUOBJ_MEMORY_CUDA_DEVICE = 2,
  CUOBJ_MEMORY_UNKNOWN = 3,
  CUOBJ_MEMORY_INVALID = 4
};

// Each is called within cuObjGet or cuObjPut, by the caller's thread, and returns the bytes moved or a negative errno.
struct CUObjIOOps {
  ssize_t (*get)(const void* handle, char* memory, size_t size, loff_t offset, const cufileRDMAInfo* info);
  ssize_t (*put)(const void* handle, const char* memory, size_t size, loff_t offset, const cufileRDMAInfo* info);
};

// May be used from any thread.
class cuObjClient {
 public:
  // Never fails: isConnected() says whether it can be used.
  cuObjClient(CUObjIOOps& ops, cuObjProto_enum protocol);
  cuObjClient(const cuObjClient&) = delete;
  cuObjClient& operator=(const cuObjClient&) = delete;
  ~cuObjClient();

  bool isConnected();

  // Host memory, up to 4 GiB - 64 KiB. Registered once, however often it is called for one address; released by one
  // cuMemObjPutDescriptor, which always succeeds.
  cuObjErr_enum cuMemObjGetDescriptor(void* memory, size_t size);
  cuObjErr_enum cuMemObjPutDescriptor(void* memory);
  // The registered bytes from `memory` on; -1 if it is not registered.
  ssize_t cuMemObjGetMaxRequestCallbackSize(void* memory);

  // A token for registered memory; given back by cuMemObjPutRDMAToken. With an error its device is passed over for a
  // while.
  cuObjErr_enum cuMemObjGetRDMAToken(void* memory, size_t size, size_t memory_offset, cuObjOpType_enum operation,
                                     char** token);
  cuObjErr_enum cuMemObjPutRDMAToken(char* token);
  cuObjErr_enum cuMemObjPutRDMAToken(char* token, int error);

  // One callback with a token for registered memory. The callback's result; CU_OBJ_FAIL for arguments that are none; a
  // negative errno if there is no token.
  ssize_t cuObjGet(void* context, void* memory, size_t size, loff_t offset, loff_t memory_offset);
  ssize_t cuObjPut(void* context, void* memory, size_t size, loff_t offset, loff_t memory_offset);
  // The context of the call that a callback's handle belongs to.
  static void* getCtx(const void* handle);

  static cuObjMemoryType_enum getMemoryType(const void* memory);

  // Accepted and ignored: there is no telemetry.
  static void setupTelemetry(bool open_telemetry, std::ostream* stream);
  static void shutdownTelemetry();
  static void setTelemFlags(unsigned flags);
  static void setTelemFlags(unsigned flags, unsigned operation_flags);
  static void setOpFreq(unsigned gets, unsigned puts);

 private:
  struct Impl;
  Impl* impl_;
  void* reserved_[8];  // programs allocate NVIDIA's 72 bytes
};

static_assert(sizeof(cuObjClient) == 72 && sizeof(CUObjIOOps) == 16 && sizeof(cufileRDMAInfo) == 16);
