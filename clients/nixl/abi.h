// The binary interface between NIXL (github.com/ai-dynamo/nixl) and a storage plugin, version 1, declared anew from its
// facts: the order of virtual functions, the layout of what both sides touch, the values of enumerators. Names are
// ours, since only positions cross the boundary. Checked against NIXL's own headers of commit 8770b655
// (tests/nixl/README.md). Both sides must use libstdc++ with its C++11 strings.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

namespace verbena::nixl {

inline constexpr int api_version = 1;

enum Segment : unsigned { dram, vram, block, object, file };
enum Operation : unsigned { read_op, write_op };
enum Status : int {
  in_progress = 1,
  success = 0,
  not_posted = -1,
  invalid_parameter = -2,
  backend_error = -3,
  not_found = -4,
  mismatch = -5,
  not_allowed = -6,
  repost_active = -7,
  unknown_error = -8,
  not_supported = -9,
  remote_disconnect = -10,
  cancelled = -11,
};
static_assert(sizeof(Segment) == 4 && sizeof(Operation) == 4 && sizeof(Status) == 4);

using Parameters = std::unordered_map<std::string, std::string>;
using Segments = std::vector<Segment>;
using QueryReply = std::optional<Parameters>;  // of a descriptor; none: it does not exist
using Notifications = std::vector<std::pair<std::string, std::string>>;

// Memory: its address and the device's number. An object: the offset within it, and a number that its owner gave it.
struct Descriptor {
  uintptr_t address = 0;
  size_t length = 0;
  uint64_t device = 0;
};
// For a registration: `meta` is the object's key.
struct BlobDescriptor : Descriptor {
  std::string meta;
};
// What a plugin made of a registration.
class Metadata {
 public:
  explicit Metadata(bool is_private) : is_private_(is_private) {}
  virtual ~Metadata() = default;
  Metadata(const Metadata&) = delete;

 protected:
  bool is_private_;
};
// For a transfer.
struct MetaDescriptor : Descriptor {
  Metadata* metadata = nullptr;
};
struct RemoteDescriptor : MetaDescriptor {
  std::string agent;
};
static_assert(sizeof(Descriptor) == 24 && sizeof(MetaDescriptor) == 32 && sizeof(Metadata) == 16);
static_assert(sizeof(BlobDescriptor) == 24 + sizeof(std::string));

template <class T>
class DescriptorList {
 public:
  explicit DescriptorList(Segment segment) : segment_(segment) {}
  DescriptorList(const DescriptorList&) = default;
  virtual ~DescriptorList() = default;

  Segment segment() const { return segment_; }
  size_t size() const { return descriptors_.size(); }
  const T& operator[](size_t i) const { return descriptors_[i]; }

  virtual void resize(const size_t& count) { descriptors_.resize(count); }
  virtual void add(const T& descriptor) { descriptors_.push_back(descriptor); }
  virtual int index_of(const Descriptor&) const { return not_supported; }

 protected:
  Segment segment_;
  std::vector<T> descriptors_;
};
using BlobList = DescriptorList<BlobDescriptor>;
using MetaList = DescriptorList<MetaDescriptor>;
using RemoteList = DescriptorList<RemoteDescriptor>;
static_assert(sizeof(MetaList) == 16 + sizeof(std::vector<int>));

// A transfer that was prepared.
class Request {
 public:
  Request() = default;
  virtual ~Request() = default;
  Request(const Request&) = delete;
};

struct TransferOptions {
  std::string notification;
  bool has_notification = false;
  std::string custom;
};
struct AgentOptions;  // never read here

struct InitParameters {
  std::string local_agent;
  std::string type;
  Parameters* custom = nullptr;
  bool has_progress_thread = false;
  uint64_t progress_delay_us = 0;
  enum class Sync : int { none, strict, read_write } sync = Sync::none;
  bool has_telemetry = false;
};
static_assert(sizeof(InitParameters) == 2 * sizeof(std::string) + 32);

struct TelemetryEvent {
  uint32_t type = 0;
  uint64_t value = 0;
};

// A plugin's engine. The names of NIXL's functions are in the comments.
class Engine {
 public:
  explicit Engine(const InitParameters& given)
      : type_(given.type),
        custom_(*given.custom),
        local_agent_(given.local_agent),
        has_telemetry_(given.has_telemetry) {}
  Engine(const Engine&) = delete;
  virtual ~Engine() = default;

  virtual bool supports_remote() const = 0;         // supportsRemote
  virtual bool supports_local() const = 0;          // supportsLocal
  virtual bool supports_notifications() const = 0;  // supportsNotif
  virtual Segments segments() const = 0;            // getSupportedMems

  virtual Status register_segment(const BlobDescriptor& what, const Segment& segment, Metadata*& made) = 0;
  virtual Status deregister(Metadata* made) = 0;
  virtual Status connect(const std::string& agent) = 0;
  virtual Status disconnect(const std::string& agent) = 0;
  virtual Status unload(Metadata* loaded) = 0;  // unloadMD

  // prepXfer, postXfer, checkXfer, releaseReqH. In lists of equal length, the descriptors of one index are a pair.
  virtual Status prepare(const Operation& operation, const MetaList& local, const MetaList& remote,
                         const std::string& agent, Request*& request, const TransferOptions* options) const = 0;
  virtual Status post(const Operation& operation, const MetaList& local, const MetaList& remote,
                      const std::string& agent, Request*& request, const TransferOptions* options) const = 0;
  virtual Status check(Request* request) const = 0;
  virtual Status release(Request* request) const = 0;

  // prepMemView of remote and of local memory, releaseMemView
  virtual Status view_remote(const RemoteList&, void*&, const TransferOptions*) const { return not_supported; }
  virtual Status view_local(const MetaList&, void*&, const TransferOptions*) const { return not_supported; }
  virtual void release_view(void*) const {}

  // getPublicData, getConnInfo, loadRemoteConnInfo, loadRemoteMD: of plugins that support remote agents
  virtual Status public_data(const Metadata*, std::string&) const { return backend_error; }
  virtual Status connection_info(std::string&) const { return backend_error; }
  virtual Status load_connection_info(const std::string&, const std::string&) { return backend_error; }
  virtual Status load_remote(const BlobDescriptor&, const Segment&, const std::string&, Metadata*&) {
    return backend_error;
  }
  virtual Status load_local(Metadata*, Metadata*&) { return backend_error; }  // loadLocalMD

  virtual Status notifications(Notifications&) { return backend_error; }                         // getNotifs
  virtual Status notify(const std::string&, const std::string&) const { return backend_error; }  // genNotif

  virtual Status query(const BlobList&, std::vector<QueryReply>&) const { return not_supported; }  // queryMem
  // estimateXferCost
  virtual Status estimate(const Operation&, const MetaList&, const MetaList&, const std::string&, Request* const&,
                          std::chrono::microseconds&, std::chrono::microseconds&, int&, const AgentOptions*) const {
    return not_supported;
  }

  bool init_failed() const { return init_failed_; }

 private:
  // NIXL reads these four in place.
  std::string type_;
  Parameters custom_;
  std::vector<TelemetryEvent> telemetry_;
  std::mutex telemetry_mutex_;

 protected:
  bool init_failed_ = false;
  const std::string local_agent_;
  const bool has_telemetry_;
};
static_assert(sizeof(Engine) == 8 + 2 * sizeof(std::string) + sizeof(Parameters) + sizeof(std::vector<TelemetryEvent>) +
                                    sizeof(std::mutex) + 16);

// What nixl_plugin_init() returns.
struct Plugin {
  int version;
  Engine* (*create)(const InitParameters* given);
  void (*destroy)(Engine* engine);
  const char* (*name)();
  const char* (*plugin_version)();
  Parameters (*options)();
  Segments (*segments)();
};
static_assert(std::is_standard_layout_v<Plugin> && sizeof(Plugin) == 56 && offsetof(Plugin, segments) == 48);

}  // namespace verbena::nixl

extern "C" {
verbena::nixl::Plugin* nixl_plugin_init();
void nixl_plugin_fini();
}
