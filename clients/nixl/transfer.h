// A transfer between memory and objects: its descriptors as few batches of the client.
#pragma once

#include <sys/types.h>

#include <deque>
#include <expected>
#include <future>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "abi.h"
#include "verbena/client.h"

namespace verbena::nixl {

// Metadata of registered memory, of the host or of a device.
struct LocalMemory : Metadata {
  LocalMemory(const Descriptor& what, Buffer registered)
      : Metadata(true),
        address(what.address),
        length(what.length),
        device(registered.on_device() ? static_cast<int>(what.device) : of_host),
        buffer(std::move(registered)) {}
  static constexpr int of_host = -1;
  uintptr_t address;
  size_t length;
  int device;  // its number, or `of_host`
  Buffer buffer;
};
// Metadata of an object.
struct ObjectKey : Metadata {
  explicit ObjectKey(std::string name) : Metadata(true), key(std::move(name)) {}
  std::string key;
};

// The status for a failed item or call.
Status status_of(ErrorCode code);
// One line on the standard error: NIXL gives plugins no log of its own.
void complain(const std::string& text);

class Transfer final : public Request {
 public:
  // `bucket` outlives the transfer; descriptors and their metadata need not.
  static std::expected<std::unique_ptr<Transfer>, Status> prepare(Operation operation, const MetaList& local,
                                                                  const MetaList& remote, const std::string& bucket);
  // Waits for what is in flight: the memory is not touched afterwards. Bounded by the client's time-outs and attempts.
  ~Transfer() override;

  // May be repeated once a transfer has ended.
  Status post(const Client& client);
  // `in_progress` until every batch has ended: after an error, too, nothing of it is in flight.
  Status check();

 private:
  struct Batch {
    std::vector<BatchItem> items;
    std::vector<size_t> descriptors;  // of each item
    std::vector<Buffer> windows;
    std::vector<BatchResult> results;
    std::future<Outcome<verbena::Transfer>> done;
  };
  explicit Transfer(Operation operation) : operation_(operation) {}
  Status add(size_t number, const Descriptor& local, const LocalMemory& memory, const MetaDescriptor& remote,
             const std::string& bucket);
  std::pair<Batch&, unsigned> place_for(const LocalMemory& memory);
  Status end(Batch& batch);
  void tell(const std::string& key, size_t number, const std::string& why);
  void begin(Batch& batch, const Client& client);
  bool is_of_a_parent() const;

  const Operation operation_;
  std::deque<std::string> keys_;
  std::deque<Batch> batches_;
  std::set<std::string_view> written_;                                          // while it is prepared
  std::unordered_map<const LocalMemory*, std::pair<Batch*, unsigned>> places_;  // the newest of each memory's windows
  std::unordered_map<int, Batch*> newest_;                                      // the newest batch of each device
  Status status_ = not_posted;
  pid_t posted_by_ = 0;
  size_t count_ = 0, told_ = 0;
};

}  // namespace verbena::nixl
