// One session of the server, with a stream to each of the server's cores over one provider. Replaced as a whole when it
// breaks.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "client/native/handshake.h"
#include "client/native/stream.h"
#include "memory/cuda.h"

namespace verbena::client {

class NativeStreams : public std::enable_shared_from_this<NativeStreams> {
 public:
  // Opens a session and tries the providers in order of preference until one connects to every core that offers it.
  // `dial` makes the links. After a stop the wait for an answer ends soon; a dial does not.
  static Result<std::shared_ptr<NativeStreams>> open(const NativeOptions& options, const NativeDial& dial,
                                                     const std::stop_token& stop);
  ~NativeStreams();

  NativeStream& stream_of(std::string_view bucket, std::string_view key);
  // The streams by number.
  size_t number_of(std::string_view bucket, std::string_view key) const;
  NativeStream& at(size_t number) { return *streams_[number]; }
  // To this core of the server, if there is one to it.
  NativeStream& of_core(size_t core) { return *streams_[core < by_core_.size() ? by_core_[core] : 0]; }
  size_t count() const { return streams_.size(); }
  NativeStream& any() { return *streams_.front(); }
  // True if a stream broke, or the server may have ended the session as idle.
  bool stale() const;
  void touch() { last_used_.store(SteadyClock::now(), std::memory_order_relaxed); }
  void close();

  uint32_t credits() const { return credits_; }
  unsigned version() const { return version_; }  // of the protocol
  // The server is on this host, and GPUs copy for it.
  bool shares_devices(memory::cuda::Platform of) const { return takes_handles(of) || takes_descriptors(of); }
  bool takes_handles(memory::cuda::Platform of) const { return devices_of(of).handles; }
  bool takes_descriptors(memory::cuda::Platform of) const { return devices_of(of).descriptors; }
  std::chrono::milliseconds idle_timeout() const { return idle_timeout_; }
  std::string provider() const { return std::string(streams_.front()->provider()); }

 private:
  NativeStreams() = default;
  static Result<std::vector<std::unique_ptr<NativeStream>>> connect(const struct SessionTerms& terms,
                                                                    const NativeOptions& options,
                                                                    const NativeDial& dial, std::string_view provider,
                                                                    const std::stop_token& stop);

  std::vector<std::unique_ptr<NativeStream>> streams_;  // at least one
  std::vector<uint32_t> by_core_;                       // core -> stream
  uint32_t credits_ = 0;
  unsigned version_ = 1;
  const SessionTerms::Devices& devices_of(memory::cuda::Platform of) const {
    return of == memory::cuda::Platform::cuda ? cuda_ : rocm_;
  }
  SessionTerms::Devices cuda_, rocm_;
  // In milliseconds, because it is divided: three quarters of a second would be zero seconds.
  std::chrono::milliseconds idle_timeout_{0};
  std::atomic<SteadyClock::time_point> last_used_{};
};

}  // namespace verbena::client
