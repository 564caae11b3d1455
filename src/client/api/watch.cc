// Watches, behind their public handle.
#include "client/api/client_impl.h"

namespace verbena {

using client::fault;

struct Watch::Impl {
  Impl(Client of, std::unique_ptr<client::NativeWatch> watch) : client(std::move(of)), native(std::move(watch)) {}
  ~Impl() {
    // The child of a fork cannot use the session.
    if (!Client::Inside::impl(client).usable()) (void)native.release();
  }
  Impl(const Impl&) = delete;

  const Client client;
  std::stop_source ending;
  std::mutex mutex;
  std::unique_ptr<client::NativeWatch> native;  // null: ended
};

Outcome<Watch> Client::watch(const std::string& bucket, const WatchOptions& options) const {
  OUT_TRY(impl_->usable());
  OUT_ASSIGN(auto native, impl_->watch(bucket, options));
  return Watch(std::make_shared<Watch::Impl>(*this, std::move(native)));
}

Outcome<std::unique_ptr<client::NativeWatch>> Client::Impl::watch(const std::string& bucket,
                                                                  const WatchOptions& options) {
  if (session_ == nullptr) {
    return fault(ErrorCode::unsupported, "watches go by the native door, and this client does not use it");
  }
  auto begun = session_->watch(bucket, options.prefix, options.cancel);
  if (begun || begun.error().code != ErrorCode::connection_failed) return begun;
  ClientError error = std::move(begun).error();
  error.message = "watches go by the native door alone, which is not open: " + error.message;
  return std::unexpected(std::move(error));
}

Outcome<WatchNews> Watch::next(std::chrono::milliseconds at_most, std::stop_token cancel) const {
  Impl& impl = *impl_;
  OUT_TRY(Client::Inside::impl(impl.client).usable());
  // Beyond the clock's range: waits without a limit.
  constexpr std::chrono::hours long_time{24 * 365};
  const Deadline until = at_most > long_time ? Deadline::max() : deadline_in(std::max(at_most, at_most.zero()));
  std::stop_source stop;
  const auto wake = [&stop] { stop.request_stop(); };
  const std::stop_callback by_end(impl.ending.get_token(), wake);
  const std::stop_callback by_caller(std::move(cancel), wake);
  const std::lock_guard lock(impl.mutex);
  if (impl.native == nullptr || stop.stop_requested()) return fault(ErrorCode::cancelled, "the watch was ended");
  return client::SessionDoor::next(*impl.native, until, stop.get_token());
}

void Watch::end() const {
  Impl& impl = *impl_;
  impl.ending.request_stop();
  if (!Client::Inside::impl(impl.client).usable()) return;
  const std::lock_guard lock(impl.mutex);
  impl.native.reset();
}

std::string_view to_string(KeyEvent what) {
  switch (what) {
    case KeyEvent::created:
      return "created";
    case KeyEvent::appended:
      return "appended";
    case KeyEvent::removed:
      return "removed";
    case KeyEvent::marked:
      return "marked";
    case KeyEvent::changed:
      return "changed";
    case KeyEvent::renamed_away:
      return "renamed_away";
    case KeyEvent::renamed_here:
      return "renamed_here";
    case KeyEvent::evicted:
      return "evicted";
  }
  return "?";
}

}  // namespace verbena
