#include "cli/tree_copy.h"

#include <fcntl.h>
#include <fmt/core.h>
#include <sys/stat.h>

#include <algorithm>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <vector>

#include "cli/progress.h"
#include "cli/report.h"
#include "cli/transfer_file.h"
#include "cli/tree_walk.h"
#include "cli/watch_terminal.h"
#include "client/helpers.h"
#include "client/outcome.h"

namespace verbena::cli {

using client::fault;

namespace {

namespace fs = std::filesystem;

struct Task {
  bool remove = false;
  TreeEntry entry;
};

// The queue of tasks, with a few ahead of the workers: a tree may have more files than memory has room for names.
class Tasks {
 public:
  explicit Tasks(size_t ahead_max) : ahead_max_(ahead_max) {}
  // False when the work was cancelled.
  bool put(Task task) {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return tasks_.size() < ahead_max_ || given_up_; });
    if (given_up_) return false;
    tasks_.push_back(std::move(task));
    changed_.notify_all();
    return true;
  }
  std::optional<Task> take() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !tasks_.empty() || ended_ || given_up_; });
    if (given_up_ || tasks_.empty()) return std::nullopt;
    Task task = std::move(tasks_.front());
    tasks_.pop_front();
    changed_.notify_all();
    return task;
  }
  void end() { set(ended_); }
  void give_up() { set(given_up_); }

 private:
  void set(bool& what) {
    std::lock_guard lock(mutex_);
    what = true;
    changed_.notify_all();
  }
  const size_t ahead_max_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<Task> tasks_;
  bool ended_ = false, given_up_ = false;
};

S3Address below(const TreePlace& place, std::string_view relative) {
  return {place.s3->bucket, place.s3->key + std::string(relative)};
}

class TreeCopy {
 public:
  TreeCopy(const Client& client, const TreePlace& from, const TreePlace& to, const TreeOptions& options)
      : client_(client),
        from_(from),
        to_(to),
        options_(options),
        tasks_(options.jobs * 4),
        removes_(options.remove),
        bar_(to.text(""), std::nullopt, options.progress && !options.verbose && !options.dry_run) {}

  TreeDone run() {
    {
      const auto workers = client::start_helpers(options_.jobs, [this] {
        while (auto task = tasks_.take()) work(*task);
      });
      if (workers.empty()) {
        failed(from_.text(""), fault(ErrorCode::local_error, "this process may have no further thread").error());
        return done_;
      }
      if (auto compared = compare(); !compared) failed(from_.text(""), compared.error());
      tasks_.end();
    }
    return done_;
  }

 private:
  using Found = std::optional<TreeEntry>;

  Outcome<std::unique_ptr<TreeWalk>> walk(const TreePlace& place, FolderWalkOptions options) {
    if (!place.s3) return walk_folder(place.folder, options);
    return walk_prefix(client_, *place.s3);
  }

  // The source's next file. What cannot be read is reported and passed over, and nothing is removed from then on.
  Outcome<Found> next_of(TreeWalk& source) {
    for (;;) {
      auto found = source.next();
      if (found || !source.passable()) return found;
      failed(from_.text(""), found.error());
      removes_ = false;
    }
  }

  Outcome<> compare() {
    OUT_ASSIGN(const auto source, walk(from_, {}));
    OUT_ASSIGN(const auto target, walk(to_, {.may_be_missing = true, .follow_links = false}));
    OUT_ASSIGN(Found here, next_of(*source));
    OUT_ASSIGN(Found there, target->next());
    if (!here && !source->exists()) OUT_TRY(may_be_empty(there.has_value()));
    while (here || there) {
      const int order = !here ? 1 : !there ? -1 : here->relative.compare(there->relative);
      if (order > 0) {
        if (removes_ && !give({true, *there})) return {};
      } else if (differs(*here, order < 0 ? behind_link(*here) : there)) {
        if (!give({false, *here})) return {};
      } else {
        ++same_;
      }
      if (order <= 0) {
        OUT_ASSIGN(here, next_of(*source));
      }
      if (order >= 0) {
        OUT_ASSIGN(there, target->next());
      }
    }
    done_.same = same_;
    return {};
  }

  // An empty source would remove everything in the target. An empty prefix may be a typing error, so that must be
  // confirmed.
  Outcome<> may_be_empty(bool target_has_any) const {
    if (options_.always) return fault(ErrorCode::no_such_key, "no key begins with this");
    if (!options_.remove || !target_has_any || options_.allow_empty) return {};
    return fault(ErrorCode::no_such_key, "no key begins with this, so --delete would remove all of " + to_.text("") +
                                             "; if you mean that, add --allow-empty");
  }

  // The walk of a target passes over links to folders, since nothing behind them may be removed. A copy goes through
  // them.
  Found behind_link(const TreeEntry& source) const {
    if (to_.s3) return std::nullopt;
    const auto path = local_path(to_.folder, source.relative);
    return path ? file_at(*path, source.relative) : std::nullopt;
  }

  bool differs(const TreeEntry& source, const Found& target) const {
    if (options_.always || !target || source.size != target->size) return true;
    return !options_.size_only && source.modified_us / 1'000 > target->modified_us / 1'000;
  }

  bool give(Task task) {
    if (!options_.dry_run) return tasks_.put(std::move(task));
    say(task, "would ");
    std::lock_guard lock(mutex_);
    count(task);
    return true;
  }

  void count(const Task& task) {
    if (task.remove) {
      ++done_.removed;
    } else {
      ++done_.copied;
      done_.bytes += task.entry.size;
    }
  }

  void say(const Task& task, std::string_view before) {
    const std::string there = for_output(to_.text(task.entry.relative));
    std::lock_guard lock(mutex_);
    if (task.remove) {
      fmt::print("{}delete {}\n", before, there);
    } else {
      fmt::print("{}copy {} to {}\n", before, for_output(from_.text(task.entry.relative)), there);
    }
  }

  void work(const Task& task) {
    const Outcome<> outcome = task.remove ? remove(task.entry.relative) : copy(task.entry);
    if (!outcome)
      return failed(task.remove ? to_.text(task.entry.relative) : from_.text(task.entry.relative), outcome.error());
    if (options_.verbose) say(task, "");
    std::lock_guard lock(mutex_);
    failures_.succeeded();
    count(task);
    if (!task.remove) bar_.add(task.entry.size);
  }

  Outcome<> remove(const std::string& relative) {
    if (to_.s3) return client_.remove(to_.s3->bucket, below(to_, relative).key);
    std::error_code ec;
    fs::remove(to_.folder / relative, ec);
    if (ec) return fault(ErrorCode::local_error, ec.message());
    return {};
  }

  Outcome<> copy(const TreeEntry& entry) {
    if (to_.s3) {
      const S3Address to = below(to_, entry.relative);
      if (from_.s3) {
        OUT_TRY(copy_object(client_, below(from_, entry.relative), to));
      } else {
        OUT_TRY(upload(client_, (from_.folder / entry.relative).string(), to.bucket, to.key, {}, false));
      }
      return {};
    }
    const auto path = local_path(to_.folder, entry.relative);
    if (!path) return fault(ErrorCode::local_error, "skipped: its key is not a safe file name");
    std::error_code ec;
    fs::create_directories(path->parent_path(), ec);
    if (ec) return fault(ErrorCode::local_error, path->parent_path().string() + ": " + ec.message());
    const S3Address from = below(from_, entry.relative);
    OUT_TRY(download(client_, from.bucket, from.key, path->string(), PathFrom::key, false));
    // Set to the object's time, so that the next comparison finds both equal.
    const timespec when{entry.modified_us / 1'000'000, entry.modified_us % 1'000'000 * 1'000};
    const timespec times[2] = {when, when};
    if (::utimensat(AT_FDCWD, path->c_str(), times, 0) != 0) { /* a file system without times: it is copied again */
    }
    return {};
  }

  void failed(const std::string& subject, const ClientError& error) {
    std::lock_guard lock(mutex_);
    done_.exit_code = report(subject, error);
    if (failures_.ended_by(error)) tasks_.give_up();
  }

  const Client& client_;
  const TreePlace& from_;
  const TreePlace& to_;
  const TreeOptions& options_;
  Tasks tasks_;
  bool removes_;
  uint64_t same_ = 0;
  std::mutex mutex_;  // guards all below, and the output
  RunFailures failures_;
  Progress bar_;
  TreeDone done_;
};

}  // namespace

std::string TreePlace::text(std::string_view relative) const {
  return s3 ? S3Address{s3->bucket, s3->key + std::string(relative)}.text() : (folder / relative).string();
}

std::expected<TreePlace, std::string> parse_tree_place(const std::string& text) {
  TreePlace place;
  if (!is_s3_address(text)) {
    place.folder = text;
    return place;
  }
  auto address = parse_s3_address(text);
  if (!address) return std::unexpected(address.error());
  if (!address->key.empty() && !address->key.ends_with('/')) address->key += '/';
  place.s3 = std::move(*address);
  return place;
}

TreeDone copy_tree(const Client& client, const TreePlace& from, const TreePlace& to, const TreeOptions& options) {
  return TreeCopy(client, from, to, options).run();
}

}  // namespace verbena::cli
