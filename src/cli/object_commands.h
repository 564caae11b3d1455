// The commands on objects and buckets, one function each; object_commands.cc defines their options.
#pragma once

#include <string>
#include <vector>

#include "cli/client_flags.h"

namespace verbena::cli {

struct CopyArguments {  // put, append, mv, get
  ClientFlags client;
  std::string from, to;
  bool recursive = false;
  std::string content_type;
  std::vector<std::string> metadata;  // "name=value"
  std::string many;                   // get: a file that names keys, or "-"
};
int run_put(const CopyArguments& arguments);
int run_append(const CopyArguments& arguments);
int run_mv(const CopyArguments& arguments);
int run_get(const CopyArguments& arguments);
int run_get_many(const CopyArguments& arguments);  // with `many`

struct TreeArguments {  // cp, sync
  ClientFlags client;
  std::string from, to;
  bool recursive = false, remove = false, allow_empty = false, dry_run = false, size_only = false;
  unsigned jobs = 8;
};
int run_cp(const TreeArguments& arguments);
int run_sync(const TreeArguments& arguments);

struct PresignArguments {
  ClientFlags client;
  std::string address, method = "GET", expires = "1h";
};
int run_presign(const PresignArguments& arguments);

struct LookArguments {  // ls, stat, du, watch
  ClientFlags client;
  std::string address, account;
  bool recursive = false, human = false, json = false, list = false;
};
int run_ls(const LookArguments& arguments);
int run_stat(const LookArguments& arguments);
int run_du(const LookArguments& arguments);
int run_watch(const LookArguments& arguments);

struct BucketArguments {  // rm, mb, rb, cat
  ClientFlags client;
  std::vector<std::string> addresses;
  bool recursive = false, force = false;
  std::string durability = "sync", etag = "md5";
};
int run_rm(const BucketArguments& arguments);
int run_mb(const BucketArguments& arguments);
int run_rb(const BucketArguments& arguments);
int run_cat(const BucketArguments& arguments);

}  // namespace verbena::cli
