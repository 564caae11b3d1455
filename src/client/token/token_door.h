// S3 with an RDMA token (dialect ofi1, docs/s3.md): an ordinary S3 request whose payload the server moves into or out
// of memory lent for that one request. Thread-safe.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <memory>
#include <mutex>
#include <optional>
#include <stop_token>
#include <string>
#include <vector>

#include "client/http/s3_http.h"
#include "client/token/sealed_window.h"
#include "client/token/window_link.h"

namespace verbena::client {

class TokenDoor {
 public:
  // `provider`: as ClientOptions::provider; "local" has no tokens and means "auto". `seals`: bytes move sealed or not
  // at all (docs/sealed-rdma.md); the endpoint must be https. `take_timeout`: how long a call waits while others use
  // all endpoints that this process may have.
  TokenDoor(S3Http& s3, std::string provider, bool seals,
            std::chrono::milliseconds take_timeout = std::chrono::seconds(60));

  // Opens a first link, bound to the address that reaches the server (it refuses tokens that name another).
  Outcome<> open();
  // The provider in tokens; empty before open().
  std::string provider() const;
  // False once the server has answered as one without support for tokens.
  bool known_to_server() const { return knowledge_ != Knowledge::no; }
  // The server has answered a token at least once, so it will not store an empty object in place of a PUT.
  bool proven() const { return knowledge_ == Knowledge::yes; }

  // Whether a transfer of this size can be sealed, if it must be.
  bool takes(uint64_t size) const;
  // Bytes move sealed, over https: then the server may be any one of S3.
  bool seals() const { return seals_; }

  // Whether links may reach the memory of a GPU. Opens one if none was opened before; else it does not wait.
  bool reaches_devices(const std::stop_token& stop);

  // `device`: `into` is a part of that window, which no CPU touches: bytes that do not come by RDMA do not come at all
  // (unsupported, or buffer_too_small), and no checksum of them is verified; invalid_argument: that window cannot be
  // lent, and nothing was sent, which says nothing against this door. The reply's transfer shows whether the bytes came
  // by RDMA (door token) or in the body (door http, with the reason). `into` must not be empty. unsupported: the server
  // refused the token itself; or it is too large to be sealed.
  Outcome<GetReply> get(const std::string& bucket, const std::string& key, MutableBytes into, const GetOptions& options,
                        const PeerWindow* device = nullptr);

  // A PUT or UploadPart prepared by the caller, without a body. Succeeds only when the server confirms that RDMA
  // carried it and returns the same checksum as `from`'s, if there is one: of a window of a `device` there need be
  // none. nullopt and `reason`: declined; send it with a body.
  // invalid_argument: as for get().
  // outcome_unknown includes a success that cannot be trusted: a server without tokens has stored the empty body.
  Outcome<std::optional<net::HttpReply>> put(S3Call call, Bytes from, const KnownChecksum& checksum, bool md5_etag,
                                             std::string& reason, const PeerWindow* device = nullptr);

 private:
  enum class Knowledge : uint8_t { unknown, yes, no };
  // Waits for one of those that others use, if there can be no more: connection_failed after take_timeout.
  Outcome<std::unique_ptr<WindowLink>> take(const std::stop_token& stop);
  void give_back(std::unique_ptr<WindowLink> link);
  Outcome<std::unique_ptr<WindowLink>> open_link();
  // `sealed`: lent in place of `window`; null: the window itself, of the host or of `device`. `lent`: what was.
  Outcome<net::HttpReply> call_with_window(S3Call call, MutableBytes window, const PeerWindow* device,
                                           fabric::Access access, SealedWindow* sealed, fabric::WindowDescriptor& lent);
  Outcome<std::unique_ptr<SealedWindow>> sealed_window(size_t length) const;  // null: this door does not seal

  S3Http& s3_;
  std::string wanted_provider_;
  const bool seals_;
  const std::chrono::milliseconds take_timeout_;
  std::atomic<Knowledge> knowledge_{Knowledge::unknown};
  std::atomic<bool> objects_have_crc64_{false};  // the last one that told its checksum had a CRC64NVME
  mutable std::mutex mutex_;
  std::condition_variable_any returned_;
  std::vector<std::unique_ptr<WindowLink>> idle_;
  size_t open_links_ = 0;
  std::optional<bool> reaches_devices_;  // of the first link
  std::string provider_;
};

}  // namespace verbena::client
