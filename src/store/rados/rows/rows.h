// Rows as logic looks at them. What is not here is asked for, and fetch() brings all that was asked for: one call for
// each tablet that it lies in.
//
// Of one key they are one snapshot: each call reads the key's version token, too, and when that is another one all that
// came before is forgotten. So are rows of a bucket that a Moment was opened for: what one call asks of a tablet is of
// one moment, and RADOS numbers the changes of an object; when a later call finds another number, or another tablet is
// read and an earlier one has changed by then, the moment is lost and what came before is forgotten.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "store/catalogue.h"
#include "store/rados/cluster/attempt.h"
#include "store/rados/rows/registry.h"

namespace verbena::store::rados {

class Rows final : public View {
 public:
  // `hold`: kept by the reader of a blob that was found here (garbage.h). `with_bytes`: a head is fetched together with
  // the key's newest small blob.
  Rows(Registry& registry, const Place& place, std::shared_ptr<const void> hold, bool with_bytes);

  Result<std::string> get(Table table, std::string_view key) override;
  std::unique_ptr<Cursor> cursor(Table table, std::string prefix, std::string_view from) override;
  std::unique_ptr<Moment> moment() override;
  Result<std::string> get_inline(uint64_t blob);

  // Brings what was asked for since the last time. internal: nothing was.
  Task<Result<void>> fetch();
  void ask_version_token() { version_token_asked_ = true; }
  // The key's version token as it is stored, empty where there is none; nullopt: not fetched.
  const std::optional<std::string>& version_token() const { return version_token_; }
  // The bucket's documents that were asked for, as they are stored; nullopt: there is none of that name.
  const std::map<std::string, std::optional<std::string>>& documents() const { return documents_; }
  // For a change, which compares it where there is no version token: the tablet's fence comes with the guard. Before
  // the first fetch().
  void ask_fence() { fence_asked_ = true; }
  const std::string& fence() const { return fence_; }
  Result<VersionToken> decoded_version_token() const;  // of the version token that was fetched
  Result<uint64_t> greatest_id() const;                // that the key ever had, or that and more: likewise
  void forget();                                       // all but which bucket

  const Place& place() const { return place_; }
  const BucketPtr& bucket() const { return bucket_; }
  void set_bucket(BucketPtr bucket) { bucket_ = std::move(bucket); }
  const std::shared_ptr<const void>& hold() const { return hold_; }

 private:
  friend class RowCursor;
  friend class RowsMoment;
  struct Page {
    std::vector<std::pair<std::string, std::string>> rows;  // as stored
    std::string next;                                       // where the next page begins
    bool last = false;
  };
  using PagePtr = std::shared_ptr<const Page>;
  struct PageName {
    std::string start, prefix;
    auto operator<=>(const PageName&) const = default;
  };
  struct Wanted;  // of one tablet
  struct Reply;

  PagePtr page(const PageName& name, uint64_t rows_max);  // null: asked for
  Result<std::string> stored(const std::string& row);
  std::map<size_t, Wanted> sort() const;
  Task<Result<Attempt>> fetch_tablet(size_t tablet, Wanted wanted);  // again: all of it, of every tablet
  Task<Result<void>> fetch_object(std::string object, std::set<std::string> names,
                                  std::map<std::string, std::optional<std::string>>& into);
  // The tablet was read and has this number now: is that the moment of all that was read before?
  Task<> hold_moment(std::string object, uint64_t version, bool told);
  Task<bool> is_unchanged(std::string object, uint64_t version);
  void lose_moment();
  PagePtr make_page(const PageName& name, size_t tablet, std::map<std::string, Buffer>& found, bool more) const;

  Registry& registry_;
  const std::string key_;
  const Place place_;
  const std::shared_ptr<const void> hold_;
  const bool with_bytes_;
  BucketPtr bucket_;
  std::map<std::string, std::optional<std::string>> rows_, root_rows_, documents_;
  std::map<PageName, PagePtr> pages_;
  std::set<std::string> asked_, root_asked_, documents_asked_;
  std::map<PageName, uint64_t> pages_asked_;
  bool version_token_asked_ = false, fence_asked_ = false;
  std::optional<std::string> version_token_;
  // Of a Moment. Tablets that were read, by their objects.
  struct Read {
    uint64_t version = 0;
    bool told = false;  // it had rows that were asked for
  };
  bool holds_moment_ = false;
  uint64_t moment_ = 0;  // counts those that were lost
  std::map<std::string, Read> read_;
  std::string fence_;
};

}  // namespace verbena::store::rados
