// Reads through a batch see its changes as if written, without those that were rolled back.
#include "store/local/batch.h"

#include <map>
#include <random>

#include "store/local/seam_env.h"
#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

using Rows = std::map<std::string, std::string>;

class BatchTest : public ::testing::Test {
 protected:
  void SetUp() override {
    ASSERT_TRUE(fs_.make_directory("/index"));
    auto opened = Index::open({.directory = "/index", .env = env_.get(), .create = true});
    ASSERT_TRUE(opened);
    index_ = std::move(*opened);
  }
  static Rows rows_of(Cursor cursor) {
    Rows rows;
    for (; cursor.valid(); cursor.next()) rows.emplace(cursor.key(), cursor.value());
    EXPECT_TRUE(cursor.status());
    return rows;
  }
  static Rows with_prefix(const Rows& rows, const std::string& prefix) {
    Rows found;
    for (const auto& [key, value] : rows) {
      if (key.starts_with(prefix)) found.emplace(key, value);
    }
    return found;
  }
  void expect_seen(Batch& batch, const Rows& rows, const std::string& key) {
    const auto got = batch.get(Family::objects, key);
    const auto wanted = rows.find(key);
    if (wanted == rows.end()) {
      EXPECT_EQ(got.error(), Errc::not_found) << key;
    } else {
      EXPECT_EQ(got.value(), wanted->second) << key;
    }
    const std::string prefix = key.substr(0, 2);
    EXPECT_EQ(rows_of(batch.cursor(Family::objects, prefix)), with_prefix(rows, prefix));
  }

  FaultyFileSystem fs_;
  const std::unique_ptr<rocksdb::Env> env_ = make_seam_env(fs_);
  std::unique_ptr<Index> index_;
};

TEST_F(BatchTest, ShowsWhatWasChangedAndNotWhatWasTakenBack) {
  std::mt19937 random(7);
  const auto pick = [&](unsigned upto) { return static_cast<unsigned>(random() % upto); };
  Rows written;
  for (int round = 0; round < 20; ++round) {
    Batch batch(*index_);
    if (round % 2 == 0) batch.expect(64 * 1024);
    Rows now = written;
    for (int part = 0; part < 30; ++part) {
      const Rows before = now;
      batch.save();
      for (unsigned i = pick(20); i != 0; --i) {
        const std::string key = "k" + std::to_string(pick(150));
        if (pick(3) == 0) {
          batch.erase(Family::objects, key);
          now.erase(key);
        } else {
          now[key] = std::string(pick(200), static_cast<char>('a' + pick(26)));
          batch.put(Family::objects, key, now[key]);
        }
        batch.put(Family::uploads, key, "of another family");
        expect_seen(batch, now, "k" + std::to_string(pick(150)));
      }
      if (pick(3) != 0) continue;
      batch.roll_back();
      now = before;
      for (int i = 0; i < 5; ++i) expect_seen(batch, now, "k" + std::to_string(pick(150)));
    }
    ASSERT_TRUE(index_->write(batch));
    written = now;
    EXPECT_EQ(rows_of(index_->cursor(Family::objects, "k")), written);
  }
}

TEST_F(BatchTest, ACursorGoesByWhatWasThereWhenItWasMade) {
  Batch batch(*index_);
  batch.put(Family::objects, "k1", "1");
  batch.put(Family::objects, "k3", "3");
  Cursor before = batch.cursor(Family::objects, "k");
  batch.put(Family::objects, "k2", "2");
  batch.erase(Family::objects, "k3");
  const Rows now{{"k1", "1"}, {"k2", "2"}};
  EXPECT_EQ(rows_of(batch.cursor(Family::objects, "k")), now);
  const Rows then{{"k1", "1"}, {"k3", "3"}};
  EXPECT_EQ(rows_of(std::move(before)), then);
  batch.save();
  batch.put(Family::objects, "k0", "0");
  EXPECT_EQ(rows_of(batch.cursor(Family::objects, "k")).size(), 3u);
  batch.roll_back();
  EXPECT_EQ(rows_of(batch.cursor(Family::objects, "k")), now);
}

TEST_F(BatchTest, RowsThatNobodyReadsAreWrittenAndErasedLikeOthers) {
  Batch first(*index_);
  first.put_unread(Family::in_index, "kept", "1");
  first.put_unread(Family::in_index, "gone", "2");
  first.erase_unread(Family::in_index, "gone");
  EXPECT_EQ(first.changes(), 3u);
  first.save();
  first.put_unread(Family::in_index, "taken back", "3");
  first.roll_back();
  EXPECT_EQ(first.changes(), 3u);
  ASSERT_TRUE(index_->write(first));
  EXPECT_EQ(rows_of(index_->cursor(Family::in_index, "")), (Rows{{"kept", "1"}}));
  Batch second(*index_);
  second.erase_unread(Family::in_index, "kept");
  ASSERT_TRUE(index_->write(second));
  EXPECT_EQ(rows_of(index_->cursor(Family::in_index, "")), Rows());
}

// RocksDB searches a new row's position from that of the last row with its prefix: none may be lost or out of order.
TEST_F(BatchTest, RowsAreFoundInOrderHoweverTheyCame) {
  std::mt19937_64 random(11);
  Rows written;
  for (int round = 0; round < 200; ++round) {
    Batch batch(*index_);
    uint64_t next = random() % 4096;
    for (int i = 0; i < 32; ++i) {
      next = round % 3 == 0 ? random() % 4096 : round % 3 == 1 ? next + 1 : next - 1;
      const std::string key = keys::object(random() % 3, keys::number(next));
      written[key] = std::to_string(round);
      batch.put(Family::objects, key, written[key]);
      if (random() % 4 != 0) continue;
      batch.erase(Family::objects, written.begin()->first);
      written.erase(written.begin());
    }
    ASSERT_TRUE(index_->write(batch));
  }
  EXPECT_EQ(rows_of(index_->cursor(Family::objects, "")), written);
}

}  // namespace
}  // namespace verbena::store::local
