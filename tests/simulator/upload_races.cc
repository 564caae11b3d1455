// Uploads that some clients complete at once, perhaps while another aborts them or replaces a part: each is completed
// once, or never.
#include <fmt/format.h>

#include <array>
#include <set>

#include "simulator/register.h"
#include "simulator/scene.h"

namespace verbena::simulator {
namespace {

class UploadRaces final : public Scene {
 public:
  explicit UploadRaces(World& world) : Scene(world, "races") {}
  void begin(Loop& loop) override {
    make_bucket(loop, "raced");
    if (draw(2) == 0) return;
    const Reply reply = ask(loop, "PUT", "/raced?versioning", {},
                            "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>");
    if (!reply.ok()) fail_with("no versioning: " + reply.body);
  }
  void act(Loop& loop) override {
    const auto at = static_cast<uint32_t>(draw(objects_.size()));
    if (objects_[at].busy() || draw(3) == 0) return read(loop, at);
    objects_[at].begin({});
    race(loop, at);
  }
  void crash() override {
    for (auto& object : objects_) object.release();
  }
  void look(Loop& loop) override {
    for (uint32_t at = 0; at < objects_.size(); ++at) read(loop, at);
  }
  // What was aborted or completed has left nothing.
  void settle(Loop& loop) override {
    const auto usage = run_on(loop, server().store->bucket_usage("raced"));
    if (!usage || befell() || lost_sight_) return;
    if (usage->uploads == 0 && usage->upload_bytes == 0) return;
    fail_with(fmt::format("{} uploads of {} bytes are left", usage->uploads, usage->upload_bytes));
  }

 private:
  struct Race {
    std::string target;
    uint32_t first = 0, second = 0;         // parts
    std::set<uint32_t> completed{};         // by an answer
    bool aborted = false, unknown = false;  // by an answer; some call had none
    bool aborts = false, replaces = false;  // whether there are such calls
    bool replaced = false;
    std::vector<std::string> refusals{};
  };

  static std::string target(uint32_t at) { return fmt::format("/raced/r{}", at); }

  uint32_t draw_value() {
    constexpr size_t sizes[] = {8, 300, 5000, 70'000};
    return values().add(sizes[draw(4)], /*of_one_part=*/true);
  }

  bool begin_race(Loop& loop, uint32_t at, Race& race) {
    const Reply begun = ask(loop, "POST", target(at) + "?uploads");
    if (!begun.ok()) {
      note_failure("an upload's begin", begun);
      return false;
    }
    race.target = target(at) + "?uploadId=" + begun.element("UploadId");
    for (const auto& [number, value] : {std::pair(1, race.first), std::pair(2, race.second)}) {
      const Reply part =
          ask(loop, "PUT", race.target + fmt::format("&partNumber={}", number), {}, values().bytes(value));
      if (part.ok()) continue;
      note_failure("a part", part);
      return false;
    }
    return true;
  }

  void complete(Loop& loop, Race& race, int number) {
    const uint32_t value = number == 1 ? race.first : race.second;
    const Reply reply = ask(loop, "POST", race.target, {},
                            fmt::format("<CompleteMultipartUpload><Part><PartNumber>{}</PartNumber><ETag>{}</ETag>"
                                        "</Part></CompleteMultipartUpload>",
                                        number, values().plain_etag(value)));
    if (reply.ok() && reply.code.empty()) {
      race.completed.insert(value);
    } else if (reply.code == "NoSuchUpload" || reply.code == "InvalidPart") {
      race.refusals.push_back(fmt::format("{} {}", number, reply.code));
    } else {
      note_failure("a completion", reply);
      race.unknown = true;
    }
  }

  void abort(Loop& loop, Race& race) {
    const Reply reply = ask(loop, "DELETE", race.target);
    if (reply.ok()) {
      race.aborted = true;
    } else if (reply.code != "NoSuchUpload") {
      note_failure("an abort", reply);
      race.unknown = true;
    }
  }

  void replace(Loop& loop, Race& race, uint32_t value) {
    const Reply reply = ask(loop, "PUT", race.target + "&partNumber=1", {}, values().bytes(value));
    if (reply.ok()) {
      race.replaced = true;
    } else if (reply.code != "NoSuchUpload") {
      note_failure("a part", reply);
      race.unknown = true;
    }
  }

  void race(Loop& loop, uint32_t at) {
    Race race{.target = {}, .first = draw_value(), .second = draw_value()};
    if (!begin_race(loop, at, race)) {
      lost_sight_ = true;
      return objects_[at].refused();
    }
    objects_[at].add({race.first, race.second});
    race.aborts = draw(3) == 0;
    race.replaces = draw(3) == 0;
    std::vector<std::function<void(Loop&)>> calls;
    for (uint64_t left = 2 + draw(2); left > 0; --left) {
      const int number = 1 + static_cast<int>(draw(2));
      calls.emplace_back([this, &race, number](Loop& of) { complete(of, race, number); });
    }
    if (race.aborts) calls.emplace_back([this, &race](Loop& of) { abort(of, race); });
    const uint32_t other = race.replaces ? draw_value() : 0;
    if (race.replaces) calls.emplace_back([this, &race, other](Loop& of) { replace(of, race, other); });
    together(calls);
    judge(loop, at, race);
  }

  void judge(Loop& loop, uint32_t at, Race& race) {
    const size_t ends = race.completed.size() + (race.aborted ? 1 : 0);
    if (ends > 1) tell(race, "ended more than once");
    // After a failure an upload may be said to have gone that a call without an answer has ended.
    if (race.unknown || (ends == 0 && befell())) {
      lost_sight_ = true;
      if (!race.completed.empty()) return objects_[at].done(*race.completed.begin());
      return objects_[at].unknown(settled());
    }
    if (ends == 0 && !race.aborts && !race.replaces) tell(race, "was not completed");
    if (race.completed.empty()) {
      if (!race.aborted) abort(loop, race);
      lost_sight_ = lost_sight_ || race.unknown;
      if (!race.aborted && !race.unknown) tell(race, "has gone, by no call");
      return objects_[at].refused();
    }
    objects_[at].done(*race.completed.begin());
    read(loop, at);
    count_versions(loop, at, race);
  }

  // One completion makes one version.
  void count_versions(Loop& loop, uint32_t at, const Race& race) {
    store::ListVersionsRequest request;
    request.prefix = fmt::format("r{}", at);
    const auto page = run_on(loop, server().store->list_versions("raced", request));
    if (!page) return;
    size_t made = 0;
    for (const store::VersionEntry& entry : page->versions) {
      const uint32_t value = values().named(entry.info.etag);
      if (value != 0 && (value == race.first || value == race.second)) ++made;
    }
    if (made > 1) tell(race, fmt::format("has made {} versions", made));
  }

  void tell(const Race& race, const std::string& what) {
    std::string text = fmt::format("{} {}; completed with", race.target, what);
    for (const uint32_t value : race.completed) text += fmt::format(" {}", value);
    for (const std::string& refusal : race.refusals) text += ", refused " + refusal;
    fail_with(text + (race.aborted ? ", aborted" : "") + (race.replaced ? ", a part replaced" : ""));
  }

  void read(Loop& loop, uint32_t at) {
    const auto reading = objects_[at].begin_read();
    const Reply reply = ask(loop, "GET", target(at));
    if (!reply.ok() && reply.status != 404) {
      note_failure("a read", reply);
      return objects_[at].end_read(reading);
    }
    std::vector<uint32_t> seen;
    const bool whole = reply.status == 404 || (values().split(reply.body, seen) && seen.size() == 1);
    const uint32_t is = seen.empty() ? 0 : seen[0];
    if (objects_[at].end_read(reading, [&](uint32_t one) { return whole && one == is; })) return;
    fail_with(fmt::format("{}: {} {}, value {}", target(at), reply.status, reply.code, is));
  }

  std::array<Register<uint32_t>, 3> objects_{};
  bool lost_sight_ = false;  // of some upload
};

}  // namespace

std::unique_ptr<Scene> make_upload_races(World& world) { return std::make_unique<UploadRaces>(world); }

}  // namespace verbena::simulator
