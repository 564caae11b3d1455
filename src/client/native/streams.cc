#include "client/native/streams.h"

#include <optional>

#include "base/log.h"
#include "base/log_limit.h"
#include "client/native/dial.h"
#include "client/native/handshake.h"
#include "client/retry.h"
#include "native/wire/device.h"

namespace verbena::client {

namespace wire = native::wire;

// Whether no machine on the way can read or change the bytes. For RDMA the server's word is not enough: this side must
// have the cipher.
static bool is_protected(const NativeEndpoint& endpoint) {
  if (endpoint.provider == "local") return true;
  return endpoint.provider == "tcp" ? endpoint.encrypted : endpoint.sealing != fabric::Sealing::none;
}

static void note_without_secrecy(const NativeOptions& options) {
  static log::Limit limit;
  limit.warn(
      "native: the version of the server at {} has no forward secrecy: what this session seals can be opened "
      "later by its secret key",
      options.host);
}

// The provider's endpoints would be sealed by keys that a leak of the secret key opens later, which is not wanted.
static bool lacks_secrecy(const SessionTerms& terms, const NativeOptions& options, std::string_view provider) {
  if (!options.forward_secrecy_only || terms.has_forward_secrecy()) return false;
  return std::ranges::any_of(terms.endpoints, [&](const NativeEndpoint& one) {
    return same_provider(provider, one.provider) && one.sealing != fabric::Sealing::none;
  });
}

Result<std::vector<std::unique_ptr<NativeStream>>> NativeStreams::connect(const SessionTerms& terms,
                                                                          const NativeOptions& options,
                                                                          const NativeDial& dial,
                                                                          std::string_view provider,
                                                                          const std::stop_token& stop) {
  std::vector<std::unique_ptr<NativeStream>> streams;
  for (const NativeEndpoint& endpoint : terms.endpoints) {
    if (!same_provider(provider, endpoint.provider)) continue;
    if (options.encrypted_only && !is_protected(endpoint)) continue;
    const bool sealed = endpoint.sealing != fabric::Sealing::none;
    VB_ASSIGN(auto link, dial(endpoint, terms));
    NativeStream::Setup setup{.endpoint = endpoint,
                              .session = terms.session,
                              .keys = wire::derive_stream(terms.master, endpoint.index, sealed),
                              .credits = terms.credits,
                              .spin_for = options.spin_for,
                              .trace_context = terms.trace_context};
    streams.push_back(std::make_unique<NativeStream>(std::move(link), std::move(setup)));
    VB_TRY(streams.back()->hello(deadline_in(options.connect_timeout), stop));
  }
  return streams;
}

Result<std::shared_ptr<NativeStreams>> NativeStreams::open(const NativeOptions& options, const NativeDial& dial,
                                                           const std::stop_token& stop) {
  Error last{.code = Errc::connection_failed, .sys = 0, .context = "native: no common provider"};
  std::optional<SessionTerms> terms;
  for (const std::string& provider : options.providers) {
    if (stop.stop_requested()) return fail(Errc::connection_failed, "native: the session is no longer wanted");
    if (!terms) {
      auto asked = request_session(options, stop);
      // The failure changed nothing: the request that needs the session has not been sent.
      if (!asked && (may_have_happened(asked.error()) || asked.error() == Errc::too_large)) {
        return fail(Errc::connection_failed, asked.error().context, asked.error().sys);
      }
      if (!asked) return std::unexpected(asked.error());
      terms = std::move(*asked);
    }
    if (lacks_secrecy(*terms, options, provider)) {
      last = {Errc::unsupported, 0, "native: the server's version has no forward secrecy, which encryption requires"};
      log::debug("native: provider {}: {}", provider, last.context);
      continue;  // the session serves the next one
    }
    auto streams = connect(*terms, options, dial, provider, stop);
    if (!streams) {
      log::debug("native: provider {} does not connect: {}", provider, describe(streams.error()));
      last = streams.error();
      terms.reset();  // the session may have ended with the streams that did connect
      continue;
    }
    if (streams->empty()) continue;
    if (streams->front()->endpoint().sealing != fabric::Sealing::none && !terms->has_forward_secrecy()) {
      note_without_secrecy(options);
    }
    std::shared_ptr<NativeStreams> all(new NativeStreams);
    all->streams_ = std::move(*streams);
    all->credits_ = terms->credits;
    all->version_ = terms->version;
    if (provider == "local" && terms->version >= wire::version_of_devices) {
      all->cuda_ = terms->cuda;
      all->rocm_ = terms->rocm;
    }
    all->idle_timeout_ = terms->idle_timeout;
    all->by_core_.resize(std::max(1u, terms->cores), 0);
    for (uint32_t i = 0; i < all->streams_.size(); ++i) {
      const uint32_t core = all->streams_[i]->endpoint().core;
      if (core < all->by_core_.size()) all->by_core_[core] = i;
    }
    all->touch();
    return all;
  }
  return fail(Errc::connection_failed, last.context, last.sys);
}

NativeStreams::~NativeStreams() { close(); }

void NativeStreams::close() {
  for (auto& stream : streams_) stream->close();
}

NativeStream& NativeStreams::stream_of(std::string_view bucket, std::string_view key) {
  return *streams_[number_of(bucket, key)];
}

size_t NativeStreams::number_of(std::string_view bucket, std::string_view key) const {
  return by_core_[wire::core_of(bucket, key, static_cast<uint32_t>(by_core_.size()))];
}

bool NativeStreams::stale() const {
  for (const auto& stream : streams_) {
    if (stream->broken()) return true;
  }
  // Early enough that the server has not ended the session before.
  return SteadyClock::now() - last_used_.load(std::memory_order_relaxed) > idle_timeout_ * 3 / 4;
}

}  // namespace verbena::client
