// The committer alone: how often it syncs a volume for a group, and when it answers.
#include "store/local/committer.h"

#include <cerrno>
#include <future>

#include "store/local/seam_env.h"
#include "store/local/test_store.h"

namespace verbena::store::local {
namespace {

constexpr size_t members_of_group = 10;

// Of a volume into which others write all the time: whenever a sync has begun, a write ends.
class BusyFile final : public File {
 public:
  Result<size_t> pread(MutableBytes, uint64_t) override { return fail(Errc::io_error, "busy"); }
  Result<size_t> pwrite(Bytes from, uint64_t) override { return from.size(); }
  Result<void> datasync() override {
    ++syncs;
    volume->note_written();
    if (fails) return fail(Errc::io_error, "busy: datasync", EIO);
    return {};
  }
  Result<void> allocate(uint64_t, uint64_t) override { return {}; }
  Result<void> punch(uint64_t, uint64_t) override { return {}; }
  Result<void> truncate(uint64_t) override { return {}; }
  Result<FileStat> stat() override { return FileStat{}; }

  Volume* volume = nullptr;
  size_t syncs = 0;
  bool fails = false;
};

struct BusyVolume {
  explicit BusyVolume(uint64_t id) {
    auto made = std::make_unique<BusyFile>();
    file = made.get();
    volume = std::make_shared<Volume>(id, std::move(made));
    file->volume = volume.get();
    volume->note_written();
  }
  local::Run run() const {
    ++volume->unsettled;
    return {volume, 0, disk_alignment};
  }
  std::shared_ptr<Volume> volume;
  BusyFile* file;
};

class CommitterTest : public testing::Test {
 protected:
  CommitterTest() {
    EXPECT_TRUE(fs_.make_directory("/index") && fs_.make_directory("/volumes"));
    auto opened = Index::open({.directory = "/index", .env = env_.get(), .create = true});
    EXPECT_TRUE(opened);
    index_ = std::move(*opened);
    volumes_.emplace(Volumes::Options{.directory = "/volumes", .fs = &fs_, .next_id = next_id_});
    garbage_.emplace(*index_, *volumes_, [](const std::vector<uint64_t>&) {});
    committer_.emplace(*index_, *volumes_, *garbage_, Committer::Options{.clock = &clock_, .next_id = next_id_});
  }
  static Mutation changes_nothing(std::vector<local::Run> runs = {}) {
    return {.judge = [](Transaction&) { return Result<void>(); }, .blob = {}, .runs = std::move(runs), .bucket = {}};
  }
  // What is submitted before is one group.
  void process() {
    committer_->start();
    committer_->stop();
  }

  FaultyFileSystem fs_;
  TestClock clock_;
  std::unique_ptr<rocksdb::Env> env_ = make_seam_env(fs_);
  uint64_t id_ = 0;
  std::function<uint64_t()> next_id_ = [this] { return ++id_; };
  std::unique_ptr<Index> index_;
  std::optional<Volumes> volumes_;
  std::optional<Garbage> garbage_;
  std::optional<Committer> committer_;
};

TEST_F(CommitterTest, AGroupSyncsAVolumeOnceThoughOthersWriteIntoItMeanwhile) {
  const BusyVolume one(1), other(2);
  size_t done = 0;
  for (size_t i = 0; i < members_of_group; ++i) {
    committer_->submit(changes_nothing({one.run(), other.run()}),
                       [&](const Result<void>& told) { done += told ? 1 : 0; });
  }
  process();
  EXPECT_EQ(done, members_of_group);
  EXPECT_EQ(one.file->syncs, 1u);
  EXPECT_EQ(other.file->syncs, 1u);
}

TEST_F(CommitterTest, ASyncThatFailsFailsAllOfItsVolumeAndNoOther) {
  const BusyVolume one(1), other(2);
  one.file->fails = true;
  size_t refused = 0, done = 0;
  for (size_t i = 0; i < members_of_group; ++i) {
    committer_->submit(changes_nothing({one.run()}), [&](const Result<void>& told) { refused += told ? 0 : 1; });
    committer_->submit(changes_nothing({other.run()}), [&](const Result<void>& told) { done += told ? 1 : 0; });
  }
  process();
  EXPECT_EQ(refused, members_of_group);
  EXPECT_EQ(done, members_of_group);
}

// A loop with a thread of its own.
class Loop {
 public:
  Loop() : thread_([this] { io_.run(); }) {}
  ~Loop() {
    guard_.reset();
    thread_.join();
  }
  boost::asio::any_io_executor executor() { return io_.get_executor(); }

 private:
  boost::asio::io_context io_;
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> guard_{io_.get_executor()};
  std::thread thread_;
};

TEST_F(CommitterTest, AnAnswerDoesNotWaitForTheDestructionOfClosuresThatOthersAnswer) {
  std::promise<void> answered;
  bool in_time = false;
  Loop one, other;
  committer_->submit(changes_nothing(), one.executor(), [&](const Result<void>&) { answered.set_value(); });
  Mutation slow = changes_nothing();
  std::shared_ptr<void> until_answered(&answered, [&](void*) {
    in_time = answered.get_future().wait_for(std::chrono::seconds(20)) == std::future_status::ready;
  });
  slow.judge = [guard = std::move(until_answered)](Transaction&) { return Result<void>(); };
  committer_->submit(std::move(slow), other.executor(), [](const Result<void>&) {});
  process();
  EXPECT_TRUE(in_time);
}

TEST_F(CommitterTest, EachOfManyMembersOfSeveralExecutorsIsAnsweredOnce) {
  constexpr size_t loops = 3, members = 200;
  std::array<std::atomic<int>, members> told{};
  {
    std::array<Loop, loops> all;
    for (size_t i = 0; i < members; ++i) {
      // The first has most of them: several posts.
      const auto executor = all[i % 10 < 8 ? 0 : i % loops].executor();
      committer_->submit(changes_nothing(), executor,
                         [&told, i](const Result<void>& done) { told[i] += done ? 1 : 2; });
    }
    process();
  }
  for (size_t i = 0; i < members; ++i) EXPECT_EQ(told[i], 1) << i;
}

}  // namespace
}  // namespace verbena::store::local
