#include "cli/object_commands.h"

#include <CLI/CLI.hpp>

#include <memory>

#include "cli/commands.h"

namespace verbena::cli {
namespace {

// A subcommand whose options are stored in an Arguments that lives as long as the callback.
template <class Arguments>
std::pair<CLI::App*, std::shared_ptr<Arguments>> add(CLI::App& app, int& exit_code, const char* name, const char* help,
                                                     int (*run)(const Arguments&)) {
  CLI::App* command = app.add_subcommand(name, help);
  auto arguments = std::make_shared<Arguments>();
  arguments->client.add_to(*command);
  command->callback([arguments, run, &exit_code] { exit_code = run(*arguments); });
  return {command, arguments};
}

constexpr const char* tree_help =
    "Copies files that are missing at TO, have another size there, or are older, many at once: to a bucket, from a "
    "bucket, or between buckets through this machine. Each file appears whole or not at all; run it again to continue "
    "after an interruption. Fetched files get their object's time. Links in a folder FROM are followed, also those to "
    "folders; files behind links to folders in TO are compared and replaced as others are, and never removed. In one "
    "bucket FROM and TO must not lie in each other. Between buckets an object keeps its content type, Cache-Control, "
    "Content-Disposition, Content-Encoding, Content-Language, Expires and metadata; tags, rights, locks and the end of "
    "its life stay behind.";

void add_tree_options(CLI::App& command, TreeArguments& arguments) {
  command.add_flag("-n,--dry-run", arguments.dry_run, "print what would be done, and do nothing");
  command.add_option("-j,--jobs", arguments.jobs, "files at once")->check(CLI::Range(1u, 64u))->capture_default_str();
}

}  // namespace

void add_object_commands(CLI::App& app, int& exit_code) {
  auto [put, put_to] = add<CopyArguments>(app, exit_code, "put", "Store a file, a folder or standard input", run_put);
  put->add_option("FILE", put_to->from, "a file, a folder with --recursive, or - for standard input")->required();
  put->add_option("S3", put_to->to, "s3://BUCKET/KEY; a KEY that is empty or ends with / gets the file's name")
      ->required();
  put->add_flag("-r,--recursive", put_to->recursive, "all files of a folder, also through links; KEY is their prefix");
  put->add_option("--content-type", put_to->content_type, "stored with the object");
  put->add_option("--meta", put_to->metadata, "user metadata; may be given several times")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);

  auto [append, append_to] = add<CopyArguments>(
      app, exit_code, "append",
      "Append a file or standard input to an object in a directory bucket, or in one that takes appends", run_append);
  append->add_option("FILE", append_to->from, "a file, or - for standard input")->required();
  append->add_option("S3", append_to->to, "s3://BUCKET/KEY; made if it does not exist")->required();

  auto [mv, mv_to] =
      add<CopyArguments>(app, exit_code, "mv", "Rename an object of a directory bucket, atomically", run_mv);
  mv->add_option("FROM", mv_to->from, "s3://BUCKET/KEY")->required();
  mv->add_option("TO", mv_to->to, "s3://BUCKET/KEY in the same bucket; an object there is replaced")->required();

  auto [get, get_to] = add<CopyArguments>(app, exit_code, "get", "Fetch an object, or all below a prefix", run_get);
  get->add_option("S3", get_to->from, "s3://BUCKET/KEY")->required();
  get->add_option("FILE", get_to->to, "a file, a folder, or - for standard output (default: the key's last part)");
  get->add_flag("-r,--recursive", get_to->recursive, "all objects whose key begins with KEY, below the folder FILE");
  get->add_option("--many", get_to->many,
                  "fetch the objects that LIST names, one key per line, each appended to KEY, below the folder FILE: "
                  "hundreds in each message; - for standard input")
      ->type_name("LIST");

  auto [cp, cp_to] =
      add<TreeArguments>(app, exit_code, "cp", "Copy a file or object, or all below a folder or prefix", run_cp);
  cp->add_option("FROM", cp_to->from, "a file, - for standard input, or s3://BUCKET/KEY")->required();
  cp->add_option("TO", cp_to->to, "s3://BUCKET/KEY, a file, a folder, or - for standard output")->required();
  cp->add_flag("-r,--recursive", cp_to->recursive, "all files below the folder, or objects below the prefix KEY/");
  add_tree_options(*cp, *cp_to);

  auto [sync, sync_to] =
      add<TreeArguments>(app, exit_code, "sync", "Synchronize a folder and a prefix, in either direction", run_sync);
  sync->description(sync->get_description() + "\n\n" + tree_help);
  sync->add_option("FROM", sync_to->from, "a folder, or s3://BUCKET/PREFIX")->required();
  sync->add_option("TO", sync_to->to, "s3://BUCKET/PREFIX, or a folder")->required();
  sync->add_flag("--delete", sync_to->remove, "also remove from TO what FROM does not have");
  sync->add_flag("--allow-empty", sync_to->allow_empty,
                 "with --delete: also if no key begins with FROM, so that all of TO is removed");
  sync->add_flag("--size-only", sync_to->size_only, "treat files of the same size as the same, whatever their times");
  add_tree_options(*sync, *sync_to);

  auto [cat, cat_to] = add<BucketArguments>(app, exit_code, "cat", "Write objects to standard output", run_cat);
  cat->add_option("S3", cat_to->addresses, "s3://BUCKET/KEY ...")->required();

  auto [ls, ls_to] = add<LookArguments>(app, exit_code, "ls", "List buckets or objects", run_ls);
  ls->add_option("S3", ls_to->address, "s3://BUCKET[/PREFIX]; without it the buckets are listed");
  ls->add_flag("-r,--recursive", ls_to->recursive, "all objects instead of one level");
  ls->add_flag("--human", ls_to->human, "sizes as 1.5 MiB");
  ls->add_flag("--json", ls_to->json, "one JSON object per line");

  auto [stat, stat_to] = add<LookArguments>(app, exit_code, "stat", "Show an object's metadata", run_stat);
  stat->add_option("S3", stat_to->address, "s3://BUCKET/KEY")->required();
  stat->add_flag("--json", stat_to->json, "one JSON object");

  auto [du, du_to] = add<LookArguments>(
      app, exit_code, "du", "Sum the sizes of objects: of a bucket from the server's count, of a prefix by listing it",
      run_du);
  auto* place = du->add_option("S3", du_to->address, "s3://BUCKET[/PREFIX]; without it each bucket");
  du->add_option("--account", du_to->account, "all buckets of this account; needs the server's root keys")
      ->type_name("NAME")
      ->excludes(place);
  du->add_flag("--list", du_to->list, "count buckets by listing them too");
  du->add_flag("--human", du_to->human, "sizes as 1.5 MiB");
  du->add_flag("--json", du_to->json, "one JSON object per line");

  auto [watch, watch_to] = add<LookArguments>(
      app, exit_code, "watch",
      "Print each change of objects as it happens, one per line; needs the native door. Ctrl-C ends it", run_watch);
  watch->add_option("S3", watch_to->address, "s3://BUCKET[/PREFIX]")->required();
  watch->add_flag("--json", watch_to->json, "one JSON object per line");

  auto [presign, presign_to] = add<PresignArguments>(
      app, exit_code, "presign", "Make a URL that works without keys, for a limited time", run_presign);
  presign->add_option("S3", presign_to->address, "s3://BUCKET/KEY")->required();
  presign->add_option("--method", presign_to->method, "the method that it allows")
      ->check(CLI::IsMember({"GET", "HEAD", "PUT", "DELETE"}))
      ->capture_default_str();
  presign->add_option("--expires", presign_to->expires, "how long it works: 3600, 15m, 12h, up to 7d")
      ->type_name("TIME")
      ->capture_default_str();

  auto [rm, rm_to] = add<BucketArguments>(app, exit_code, "rm", "Remove objects", run_rm);
  rm->add_option("S3", rm_to->addresses, "s3://BUCKET/KEY ...")->required();
  rm->add_flag("-r,--recursive", rm_to->recursive, "all objects whose key begins with KEY");

  auto [mb, mb_to] = add<BucketArguments>(app, exit_code, "mb", "Make buckets", run_mb);
  mb->add_option("S3", mb_to->addresses, "s3://BUCKET ...")->required();
  mb->add_option("--durability", mb_to->durability,
                 "sync: a PUT is acknowledged when it is on disk; memory: before that (scratch data)")
      ->check(CLI::IsMember({"sync", "memory"}))
      ->capture_default_str();
  mb->add_option("--etag", mb_to->etag, "md5: entity tags as S3 has them; fast: no MD5 is computed of what is put")
      ->check(CLI::IsMember({"md5", "fast"}))
      ->capture_default_str();

  auto [rb, rb_to] = add<BucketArguments>(app, exit_code, "rb", "Remove buckets", run_rb);
  rb->add_option("S3", rb_to->addresses, "s3://BUCKET ...")->required();
  rb->add_flag("--force", rb_to->force, "with all objects in them; buckets with versions are refused");
}

}  // namespace verbena::cli
