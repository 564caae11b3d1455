#include "store/rados/rows/rows.h"

#include <algorithm>
#include <cerrno>
#include <deque>

#include "store/empty_cursor.h"
#include "store/logic/keys.h"

namespace verbena::store::rados {
namespace {

using Pool = Cluster::Pool;

constexpr uint64_t page_rows_max = 1000, page_rows_first = 16, page_rows_growth = 8;
constexpr std::chrono::seconds fetch_max{20};
// Each further tablet of a moment must be checked again whenever another one is read.
constexpr size_t tablets_of_moment_max = 8;
// After so many lost moments tablets are no longer compared with each other, because a look over several busy ones
// would never end. All rows of a key are in one tablet, whose change count is still checked, so each key stays
// consistent.
constexpr uint64_t moments_lost_max = 3;

}  // namespace

class RowCursor final : public Cursor {
 public:
  RowCursor(Rows& rows, Family family, std::string prefix, std::string start, uint64_t page_rows)
      : rows_(rows),
        family_(std::move(family)),
        prefix_(std::move(prefix)),
        start_(std::move(start)),
        page_rows_(page_rows) {}

  bool valid() const override {
    arrive();
    return page_ && at_ < page_->rows.size();
  }
  std::string_view key() const override {
    key_ = family_.to_row(page_->rows[at_].first);
    return key_;
  }
  std::string_view value() const override { return page_->rows[at_].second; }
  void next() override { ++at_; }
  void seek(std::string_view key) override {
    std::string target = std::max(key < family_.row ? std::string() : family_.to_stored(key), prefix_);
    const bool within = page_ && start_ <= target && (page_->last || target < page_->next);
    if (!within) {
      start_ = std::move(target);
      page_.reset();
      at_ = 0;
      return;
    }
    const auto it = std::ranges::lower_bound(page_->rows, target, {}, [](const auto& row) { return row.first; });
    at_ = static_cast<size_t>(it - page_->rows.begin());
  }
  Result<void> status() const override {
    arrive();
    if (!page_) return fail(Errc::would_block, "rados: rows");
    return {};
  }

 private:
  // Moves to the page with the position; without one, the page is requested.
  void arrive() const {
    if (!page_) page_ = rows_.page({start_, prefix_}, page_rows_);
    while (page_ && at_ >= page_->rows.size() && !page_->last) {
      start_ = page_->next;
      at_ = 0;
      page_rows_ = std::min(page_rows_ * page_rows_growth, page_rows_max);
      page_ = rows_.page({start_, prefix_}, page_rows_);
    }
  }

  Rows& rows_;
  const Family family_;
  const std::string prefix_;  // in stored form
  mutable std::string start_, key_;
  mutable uint64_t page_rows_;
  mutable Rows::PagePtr page_;
  mutable size_t at_ = 0;
};

// Rows of a bucket as of one moment.
class RowsMoment final : public Moment {
 public:
  explicit RowsMoment(Rows& rows) : rows_(rows), moment_(rows.moment_) { rows.holds_moment_ = true; }
  Result<std::string> get(Table table, std::string_view key) override { return rows_.get(table, key); }
  std::unique_ptr<Cursor> cursor(Table table, std::string prefix, std::string_view from) override {
    return rows_.cursor(table, std::move(prefix), from);
  }
  bool lost() const override { return rows_.moment_ != moment_; }

 private:
  Rows& rows_;
  const uint64_t moment_;
};

struct Rows::Wanted {
  std::set<std::string> rows;
  std::vector<std::pair<PageName, uint64_t>> pages;
  bool version_token = false;
};

struct Rows::Reply {
  struct OfPage {
    std::map<std::string, Buffer> found, first;
    bool more = false;
    int code = 0, first_code = 0;
  };
  std::map<std::string, Buffer> rows;
  int rows_code = 0;
  std::deque<OfPage> pages;
  uint64_t version = 0;

  bool tells() const {
    return !rows.empty() || std::ranges::any_of(pages, [](const OfPage& page) { return !page.found.empty(); });
  }
};

Rows::Rows(Registry& registry, const Place& place, std::shared_ptr<const void> hold, bool with_bytes)
    : registry_(registry),
      key_(place.key),
      place_{place.bucket, key_, place.shown},
      hold_(std::move(hold)),
      with_bytes_(with_bytes),
      bucket_(place.bucket == 0 ? nullptr : registry.find(place.bucket)) {}

void Rows::forget() {
  rows_.clear();
  root_rows_.clear();
  documents_.clear();
  pages_.clear();
  version_token_.reset();
}

Result<VersionToken> Rows::decoded_version_token() const { return decode_version_token(*version_token_); }

Result<uint64_t> Rows::greatest_id() const {
  VB_ASSIGN(const VersionToken version_token, decode_version_token(*version_token_));
  if (!version_token_->empty()) return version_token.last_id;
  VB_ASSIGN(const Fence fence, decode_fence(fence_));
  return fence.last_id;
}

Result<std::string> Rows::stored(const std::string& row) {
  const auto found = rows_.find(row);
  if (found == rows_.end()) {
    asked_.insert(row);
    return fail(Errc::would_block, "rados: rows");
  }
  if (!found->second) return fail(Errc::not_found, "row");
  return *found->second;
}

Result<std::string> Rows::get(Table table, std::string_view key) {
  if (table != Table::meta) return stored(family(place_, table, key).to_stored(key));
  const bool root = place_.bucket == 0;
  if (!root && key.starts_with('b')) {
    if (!bucket_ || key.substr(1) != bucket_->record.info.name) return fail(Errc::not_found, "row");
    return bucket_->row;
  }
  // A document's row, without the bucket in front; or the row of a name for a new bucket.
  const std::string name = root ? std::string(key) : "c" + std::string(key.substr(std::min<size_t>(key.size(), 9)));
  auto& rows = root ? root_rows_ : documents_;
  const auto found = rows.find(name);
  if (found == rows.end()) {
    (root ? root_asked_ : documents_asked_).insert(name);
    return fail(Errc::would_block, "rados: rows");
  }
  if (!found->second) return fail(Errc::not_found, "row");
  return *found->second;
}

Result<std::string> Rows::get_inline(uint64_t blob) { return stored(inline_row(key_, blob)); }

std::unique_ptr<Cursor> Rows::cursor(Table table, std::string prefix, std::string_view from) {
  // Documents are never listed here: they are removed with their bucket.
  if (table == Table::meta) return std::make_unique<EmptyCursor>();
  Family of = family(place_, table, prefix);
  std::string stored_prefix = of.to_stored(prefix);
  std::string start = from > prefix ? of.to_stored(from) : stored_prefix;
  const uint64_t rows = key_.empty() ? page_rows_max : page_rows_first;
  return std::make_unique<RowCursor>(*this, std::move(of), std::move(stored_prefix), std::move(start), rows);
}

// A look at a key starts over each time, over rows with one guard.
std::unique_ptr<Moment> Rows::moment() {
  if (!key_.empty() || place_.bucket == 0) return std::make_unique<SameMoment>(*this);
  return std::make_unique<RowsMoment>(*this);
}

void Rows::lose_moment() {
  rows_.clear();
  pages_.clear();
  read_.clear();
  ++moment_;
}

Task<bool> Rows::is_unchanged(std::string object, uint64_t version) {
  auto now = std::make_shared<uint64_t>(0);
  librados::ObjectReadOperation op;
  op.cmpxattr(epoch_attribute, LIBRADOS_CMPXATTR_OP_EQ, to_buffer(bucket_->epoch_text));
  const int code = co_await registry_.cluster().read(Pool::index, std::move(object), std::move(op), now, 0, now.get());
  co_return code >= 0 && *now == version;
}

Task<> Rows::hold_moment(std::string object, uint64_t version, bool told) {
  const auto before = read_.find(object);
  bool same = before == read_.end() || before->second.version == version;
  if (same && before == read_.end() && moment_ < moments_lost_max) {
    // If the earlier tablets are unchanged, they had this state when this one was read.
    const auto others = read_;
    for (const auto& [other, read] : others) {
      if (same) same = co_await is_unchanged(other, read.version);
    }
    if (same && read_.size() >= tablets_of_moment_max) {
      same = std::ranges::none_of(read_, [](const auto& one) { return one.second.told; });
      if (same) read_.clear();  // does not check empty tablets over and over
    }
  }
  if (!same) lose_moment();
  Read& read = read_[object];
  read.version = version;
  read.told |= told;
}

Rows::PagePtr Rows::page(const PageName& name, uint64_t rows_max) {
  const auto found = pages_.find(name);
  if (found != pages_.end()) return found->second;
  pages_asked_[name] = rows_max;
  return nullptr;
}

std::map<size_t, Rows::Wanted> Rows::sort() const {
  std::map<size_t, Wanted> by_tablet;
  // Rows of no key are stored with the key that they are requested with.
  const auto tablet = [this](const std::string& row) {
    return bucket_->tablet_of(tablet_letters.contains(row.front()) ? row : version_token_row(key_));
  };
  for (const std::string& row : asked_) by_tablet[tablet(row)].rows.insert(row);
  for (const auto& page : pages_asked_) by_tablet[tablet(page.first.start)].pages.push_back(page);
  if (key_.empty()) return by_tablet;
  // All rows of a key are in one tablet.
  Wanted& mine = by_tablet[bucket_->tablet_of(version_token_row(key_))];
  mine.version_token = true;
  mine.rows.insert(version_token_row(key_));
  if (fence_asked_) mine.rows.insert(fence_row);
  return by_tablet;
}

Rows::PagePtr Rows::make_page(const PageName& name, size_t tablet, std::map<std::string, Buffer>& found,
                              bool more) const {
  auto page = std::make_shared<Page>();
  const bool has_next = tablet + 1 < bucket_->tablets.size() && tablet_letters.contains(name.start.front());
  // Rows left by a split are behind the tablet's end.
  const std::string end = has_next ? first_row(name.start.front(), bucket_->tablets[tablet + 1].low) : "";
  for (auto& [key, value] : found) {
    if (key < name.start) continue;
    if (has_next && key >= end) {
      more = false;
      break;
    }
    page->rows.emplace_back(key, to_text(value));
  }
  if (more && !found.empty()) {
    page->next = found.rbegin()->first + '\0';
  } else if (const auto behind = keys::after_prefix(name.prefix); has_next && (!behind || end < *behind)) {
    page->next = end;
  } else {
    page->last = true;
  }
  return page;
}

Task<Result<Attempt>> Rows::fetch_tablet(size_t tablet, Wanted wanted) {
  auto reply = std::make_shared<Reply>();
  if (!bucket_->may_read(bucket_->tablets[tablet])) {
    VB_CO_ASSIGN(bucket_, co_await registry_.readable(bucket_, first_row('o', bucket_->tablets[tablet].low)));
    if (!key_.empty()) forget();
    co_return Attempt::again;
  }
  const std::string object = bucket_->tablets[tablet].object;
  librados::ObjectReadOperation op;
  op.cmpxattr(epoch_attribute, LIBRADOS_CMPXATTR_OP_EQ, to_buffer(bucket_->epoch_text));
  if (!wanted.rows.empty()) op.omap_get_vals_by_keys(wanted.rows, &reply->rows, &reply->rows_code);
  for (const auto& [name, rows_max] : wanted.pages) {
    auto& page = reply->pages.emplace_back();
    // The call returns rows after a given one; the row before `start` is unknown, so `start` itself is requested by
    // name.
    std::string after = name.start;
    if (after == name.prefix) {
      after.clear();
    } else if (after.ends_with('\0')) {
      after.pop_back();
    } else {
      op.omap_get_vals_by_keys({name.start}, &page.first, &page.first_code);
    }
    op.omap_get_vals2(after, name.prefix, rows_max, &page.found, &page.more, &page.code);
  }
  // The first of the key's small blobs is the newest: most likely the one that the head names.
  const bool bytes = with_bytes_ && wanted.version_token && wanted.rows.contains("o" + key_);
  if (bytes) {
    auto& page = reply->pages.emplace_back();
    op.omap_get_vals2("", inline_prefix(key_), 1, &page.found, &page.more, &page.code);
  }
  const int code = co_await registry_.cluster().read(Pool::index, object, std::move(op), reply, 0, &reply->version);
  if (code == -ECANCELED || code == -ENOENT || code == -ENODATA) {
    if (holds_moment_) lose_moment();
    VB_CO_ASSIGN(bucket_, co_await registry_.refresh(bucket_, object));
    if (!key_.empty()) forget();
    co_return Attempt::again;
  }
  if (code < 0) co_return std::unexpected(to_error(code, "rados: rows"));
  if (wanted.version_token) {
    const std::string name = version_token_row(key_);
    const auto found = reply->rows.find(name);
    std::string now = found == reply->rows.end() ? "" : to_text(found->second);
    const auto barred = reply->rows.find(fence_row);
    std::string fence = barred == reply->rows.end() ? "" : to_text(barred->second);
    // Twice without a version token, but with different fences: a token may have been swept in between.
    const bool is_other = version_token_ && (*version_token_ != now || (now.empty() && fence_ != fence));
    if (is_other) forget();
    version_token_ = std::move(now);
    fence_ = std::move(fence);
    if (is_other) co_return Attempt::again;
    wanted.rows.erase(name);
    wanted.rows.erase(fence_row);
  }
  if (holds_moment_) co_await hold_moment(object, reply->version, reply->tells());
  for (const std::string& row : wanted.rows) {
    const auto found = reply->rows.find(row);
    rows_[row] = found == reply->rows.end() ? std::nullopt : std::optional(to_text(found->second));
  }
  for (size_t i = 0; i < wanted.pages.size(); ++i) {
    auto& page = reply->pages[i];
    page.found.merge(page.first);
    pages_[wanted.pages[i].first] = make_page(wanted.pages[i].first, tablet, page.found, page.more);
  }
  if (bytes) {
    for (auto& [row, value] : reply->pages.back().found) rows_[row] = to_text(value);
  }
  co_return Attempt::done;
}

Task<Result<void>> Rows::fetch_object(std::string object, std::set<std::string> names,
                                      std::map<std::string, std::optional<std::string>>& into) {
  auto reply = std::make_shared<OmapReply>();
  librados::ObjectReadOperation op;
  op.omap_get_vals_by_keys(names, &reply->rows, &reply->rows_code);
  const int code = co_await registry_.cluster().read(Pool::index, std::move(object), std::move(op), reply);
  if (code == -ENOENT) co_return fail(Errc::no_such_bucket);
  if (code < 0) co_return std::unexpected(to_error(code, "rados: rows"));
  for (const std::string& name : names) {
    const auto found = reply->rows.find(name);
    into[name] = found == reply->rows.end() ? std::nullopt : std::optional(to_text(found->second));
  }
  co_return Result<void>{};
}

Task<Result<void>> Rows::fetch() {
  if (!root_asked_.empty()) {
    auto names = std::move(root_asked_);
    root_asked_.clear();
    co_return co_await fetch_object(std::string(root_object), std::move(names), root_rows_);
  }
  if (!bucket_) co_return fail(Errc::no_such_bucket);
  if (!documents_asked_.empty()) {
    auto names = std::move(documents_asked_);
    documents_asked_.clear();
    VB_CO_TRY(co_await fetch_object(bucket_object(place_.bucket), std::move(names), documents_));
  } else if (asked_.empty() && pages_asked_.empty() && !version_token_asked_) {
    co_return fail(Errc::internal, "rados: would_block without a question");
  }
  const auto until = deadline_in(fetch_max);
  for (bool all = false; !all;) {
    if (SteadyClock::now() > until) co_return fail(Errc::slow_down, "rados: the rows keep changing");
    all = true;
    auto by_tablet = sort();
    for (auto& [tablet, wanted] : by_tablet) {
      VB_CO_ASSIGN(const Attempt attempt, co_await fetch_tablet(tablet, std::move(wanted)));
      if (attempt == Attempt::done) continue;
      all = false;
      break;
    }
  }
  asked_.clear();
  pages_asked_.clear();
  version_token_asked_ = false;
  co_return Result<void>{};
}

}  // namespace verbena::store::rados
