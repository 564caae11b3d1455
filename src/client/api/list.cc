// Listings: by the native door, else by HTTP.
#include "client/api/client_impl.h"

namespace verbena {

using client::fault;

namespace {

void set_times(ObjectInfo& info, int64_t modified_us) {
  info.last_modified = std::chrono::system_clock::time_point(std::chrono::microseconds(modified_us));
}

// The strings keep their memory.
void assign(ObjectInfo& info, const native::wire::ListItem& item) {
  info.key.assign(item.key);
  info.etag.assign(item.etag);
  info.size = item.size;
  set_times(info, item.modified_us);
}

ListPage page_of(const client::NativePage& listed) {
  ListPage page;
  page.objects.reserve(listed.items());
  listed.each([&page](const native::wire::ListItem& item) {
    if (item.common_prefix) {
      page.common_prefixes.emplace_back(item.key);
    } else {
      assign(page.objects.emplace_back(), item);
    }
    return true;
  });
  return page;
}

using Visit = std::function<bool(const ObjectInfo&)>;

// False: the visitor has stopped. `info` is that of one object after the other.
bool visit_objects(const client::NativePage& page, ObjectInfo& info, const Visit& visit) {
  bool goes_on = true;
  page.each([&](const native::wire::ListItem& item) {
    if (item.common_prefix) return true;
    assign(info, item);
    goes_on = visit(info);
    return goes_on;
  });
  return goes_on;
}

bool visit_objects(const ListPage& page, ObjectInfo& /*info*/, const Visit& visit) {
  return std::ranges::all_of(page.objects, std::ref(visit));  // a copy would forget what the visitor keeps
}

}  // namespace

// Pages of one listing must come from one door: the prefix of the continuation names it ("n:" native, "h:" HTTP).
Outcome<Client::Impl::Listed> Client::Impl::list_by_a_door(const std::string& bucket, const ListOptions& options) {
  if (options.max_keys < 1 || options.max_keys > 1000) {
    return fault(ErrorCode::invalid_argument, "max_keys must be 1 to 1000");
  }
  ListOptions page_options = options;
  const std::string& from = options.continuation;
  const bool go_on_native = from.starts_with("n:"), go_on_http = from.starts_with("h:");
  if (!from.empty()) {
    if (!go_on_native && !go_on_http) return fault(ErrorCode::invalid_argument, "not a continuation of this client");
    page_options.continuation = from.substr(2);
  }
  if (go_on_native && !session_) return fault(ErrorCode::invalid_argument, "not a continuation of this client");
  bool native = session_ && !go_on_http;
  const auto once = [&]() -> Outcome<Listed> {
    if (options.cancel.stop_requested()) return client::cancelled();
    if (native) {
      auto got = session_->list(bucket, page_options);
      if (!got && options.cancel.stop_requested()) return client::cancelled();
      if (got) {
        std::string next = got->truncated() ? std::string("n:").append(got->next_after()) : std::string();
        return Listed{.continuation = std::move(next), .page = std::move(*got)};
      }
      if (options_.via == Via::native || go_on_native || !client::get_may_fall_back(got.error())) {
        return std::unexpected(std::move(got).error());
      }
      native = false;
    }
    auto got = s3_->list(bucket, page_options);
    if (!got && options.cancel.stop_requested()) return client::cancelled();
    if (!got) return std::unexpected(std::move(got).error());
    return Listed{.continuation = got->truncated ? "h:" + got->continuation : "", .page = std::move(*got)};
  };
  return client::unless_cancelled(retried(true, once, options.cancel), options.cancel);
}

Outcome<ListPage> Client::Impl::list(const std::string& bucket, const ListOptions& options) {
  OUT_ASSIGN(Listed listed, list_by_a_door(bucket, options));
  auto* const http = std::get_if<ListPage>(&listed.page);
  ListPage page = http != nullptr ? std::move(*http) : page_of(std::get<client::NativePage>(listed.page));
  page.truncated = !listed.continuation.empty();
  page.continuation = std::move(listed.continuation);
  return page;
}

Outcome<> Client::Impl::for_each(const std::string& bucket, const std::string& prefix, const Visit& visit) {
  ListOptions options;
  options.prefix = prefix;
  ObjectInfo info;
  for (;;) {
    OUT_ASSIGN(Listed listed, list_by_a_door(bucket, options));
    const auto all = [&](const auto& page) { return visit_objects(page, info, visit); };
    if (!std::visit(all, listed.page) || listed.continuation.empty()) return {};
    options.continuation = std::move(listed.continuation);
  }
}

}  // namespace verbena
