#include "store/conformance/far_store.h"

#include <boost/asio/post.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/use_awaitable.hpp>

#include "store/logic/keys.h"
#include "store/nothing_at_hand.h"

namespace verbena::store::conformance {
namespace {

constexpr size_t page_rows = 7;  // few, so that listings go over many pages
constexpr uint64_t lost_race_every = 2;

// Lets other tasks run.
Task<> round_trip() {
  auto executor = co_await boost::asio::this_coro::executor;
  co_await boost::asio::post(executor, boost::asio::use_awaitable);
}

// A cursor that has one page of rows from its position; the next page must be fetched.
class FarCursor final : public Cursor {
 public:
  using Open = std::function<std::unique_ptr<Cursor>()>;
  // `open`: when the first page has come.
  FarCursor(Open open, Table table, std::string start, Fetched& fetched)
      : open_(std::move(open)), table_(table), fetched_(fetched), last_(std::move(start)) {}

  bool valid() const override { return here() && rows_->valid(); }
  std::string_view key() const override { return rows_->key(); }
  std::string_view value() const override { return rows_->value(); }
  void next() override {
    last_ = rows_->key();
    rows_->next();
    ++steps_;
  }
  void seek(std::string_view key) override {
    last_ = sought_ = key;
    sought_any_ = true;
    if (rows_) rows_->seek(key);
    steps_ = page_rows;
  }
  Result<void> status() const override {
    if (!here()) return fail(Errc::would_block, "far");
    return rows_->status();
  }

 private:
  // A page is identified by its first key.
  bool here() const {
    if (steps_ < page_rows) return true;
    if (!fetched_.has(table_, "page from " + last_)) return false;
    if (!rows_) {
      rows_ = open_();
      if (sought_any_) rows_->seek(sought_);
    }
    steps_ = 0;
    return true;
  }

  const Open open_;
  mutable std::unique_ptr<Cursor> rows_;
  const Table table_;
  Fetched& fetched_;
  std::string last_, sought_;
  bool sought_any_ = false;
  mutable size_t steps_ = page_rows;
};

class FarMoment final : public Moment {
 public:
  explicit FarMoment(Fetched& fetched) : fetched_(fetched), moment_(fetched.moment()) { fetched.hold_moment(); }
  Result<std::string> get(Table table, std::string_view key) override {
    if (!fetched_.has(table, key)) return fail(Errc::would_block, "far");
    return fetched_.near().get(table, key);
  }
  std::unique_ptr<Cursor> cursor(Table table, std::string prefix, std::string_view from) override {
    std::string start = prefix + " " + std::string(from);
    auto open = [this, table, prefix = std::move(prefix), from = std::string(from)] {
      return fetched_.near().cursor(table, prefix, from);
    };
    return std::make_unique<FarCursor>(std::move(open), table, std::move(start), fetched_);
  }
  bool lost() const override { return fetched_.moment() != moment_; }

 private:
  Fetched& fetched_;
  const uint64_t moment_;
};

// Forwards to the other engine's transaction, row by row.
class FarTransaction final : public Transaction {
 public:
  FarTransaction(Transaction& near, Fetched& fetched) : near_(near), view_(near, fetched) {}
  Result<std::string> get(Table table, std::string_view key) override { return view_.get(table, key); }
  std::unique_ptr<Cursor> cursor(Table table, std::string prefix, std::string_view from) override {
    return view_.cursor(table, std::move(prefix), from);
  }
  void put(Table table, std::string_view key, std::string_view value) override { near_.put(table, key, value); }
  void erase(Table table, std::string_view key) override { near_.erase(table, key); }
  void abandon(uint64_t bucket) override { near_.abandon(bucket); }
  void count(const Usage& change) override { near_.count(change); }
  void count_from_zero(uint64_t bucket) override { near_.count_from_zero(bucket); }
  Result<uint64_t> next_id() override { return near_.next_id(); }
  void take_id(uint64_t id) override { near_.take_id(id); }
  int64_t now_us() const override { return near_.now_us(); }
  Result<int64_t> left_us(uint64_t bucket, std::string_view key) override { return near_.left_us(bucket, key); }
  void leave_us(uint64_t bucket, std::string_view key, int64_t us) override { near_.leave_us(bucket, key, us); }
  void on_commit(std::function<void()> effect) override { near_.on_commit(std::move(effect)); }

 private:
  void kill_named(const BlobRef& blob) override { near_.kill(blob); }

  Transaction& near_;
  FarView view_;
};

}  // namespace

bool Fetched::has(Table table, std::string_view key) {
  Row row(table, key);
  if (here_.contains(row)) return true;
  asked_.insert(std::move(row));
  return false;
}

bool Fetched::fetch(View& rows, uint64_t changes) {
  if (asked_.empty()) return false;
  if (holds_moment_ && near_ && changes != changes_) {
    here_.clear();
    near_.reset();
    ++moment_;
  }
  if (holds_moment_ && !near_) {
    near_ = rows.moment();
    changes_ = changes;
  }
  here_.merge(asked_);
  asked_.clear();
  return true;
}

Result<std::string> FarView::get(Table table, std::string_view key) {
  if (table != Table::meta && !fetched_.has(table, key)) return fail(Errc::would_block, "far");
  return rows_.get(table, key);
}

std::unique_ptr<Cursor> FarView::cursor(Table table, std::string prefix, std::string_view from) {
  std::string start = prefix + " " + std::string(from);
  auto open = [this, table, prefix = std::move(prefix), from = std::string(from)] {
    return rows_.cursor(table, prefix, from);
  };
  return std::make_unique<FarCursor>(std::move(open), table, std::move(start), fetched_);
}

std::unique_ptr<Moment> FarView::moment() { return std::make_unique<FarMoment>(fetched_); }

View& FarCatalogue::at_hand(const Place&) {
  static NothingAtHand nothing;
  return nothing;
}

Task<Result<void>> FarCatalogue::read(const char*, Place place, Look look) {
  Fetched fetched;
  View& near = near_.at_hand(place);
  FarView rows(near, fetched);
  for (;;) {
    auto done = look(rows);
    if (done || !(done.error() == Errc::would_block)) co_return done;
    const uint64_t changes = changes_.load();  // a change during the fetch may be seen or not
    if (!fetched.fetch(near, changes)) co_return fail(Errc::internal, "far: would_block without a question");
    ++round_trips_;
    co_await round_trip();
  }
}

Result<void> FarCatalogue::judge(Transaction& transaction, const Judge& judge, Fetched& fetched, bool& was_judged) {
  FarTransaction far(transaction, fetched);
  VB_TRY(judge(far));
  // A simulated lost race: nothing of the change is kept, and it is judged again.
  if (!std::exchange(was_judged, true) && ++commits_ % lost_race_every == 0) return fail(Errc::cancelled, "far: guard");
  return {};
}

Task<Result<void>> FarCatalogue::commit(Change change) {
  Fetched fetched;
  bool was_judged = false;
  for (;;) {
    Change attempt{
        .judge = [this, &change, &fetched, &was_judged](
                     Transaction& transaction) { return judge(transaction, change.judge, fetched, was_judged); },
        .bucket = change.bucket,
        .place = change.place,
        .blob = change.blob,
        .takes_space = change.takes_space};
    auto done = co_await near_.commit(std::move(attempt));
    if (done) ++changes_;
    if (done) co_return done;
    const bool asks = done.error() == Errc::would_block;
    if (!asks && !(done.error() == Errc::cancelled)) co_return done;
    const bool asked = asks && fetched.fetch(near_.at_hand(change.place), 0);
    if (asks && !asked) co_return fail(Errc::internal, "far: would_block without a question");
    if (asks) ++round_trips_;
    co_await round_trip();
  }
}

struct FarStore::FarContext final : Context {
  FarContext(std::shared_ptr<Context> other, bool keeps_ends) : near(std::move(other)), catalogue(*near->rows) {
    rows = &catalogue;
    blobs = near->blobs;
    clock = near->clock;
    if (keeps_ends) buckets.keep_ends(*clock);
    keeps_usage = near->keeps_usage;
    keeps_events = near->keeps_events;
    tells_changes = near->tells_changes;
  }
  const std::shared_ptr<Context> near;
  FarCatalogue catalogue;
};

FarStore::FarStore(std::shared_ptr<Context> near, bool keeps_ends)
    : FarStore(std::make_shared<FarContext>(std::move(near), keeps_ends)) {}
FarStore::FarStore(std::shared_ptr<FarContext> context) : EngineStore(context), far_(std::move(context)) {}
FarCatalogue& FarStore::catalogue() { return far_->catalogue; }

}  // namespace verbena::store::conformance
