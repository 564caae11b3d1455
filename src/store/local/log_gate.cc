#include "store/local/log_gate.h"

#include <rocksdb/file_system.h>

namespace verbena::store::local {
namespace {

using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;

class GatedLog final : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  GatedLog(std::unique_ptr<rocksdb::FSWritableFile> below, LogGate& gate)
      : rocksdb::FSWritableFileOwnerWrapper(std::move(below)), gate_(gate) {}
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options, IODebugContext* context) override {
    return passed(rocksdb::FSWritableFileOwnerWrapper::Append(data, options, context));
  }
  IOStatus Append(const rocksdb::Slice& data, const IOOptions& options, const rocksdb::DataVerificationInfo& info,
                  IODebugContext* context) override {
    return passed(rocksdb::FSWritableFileOwnerWrapper::Append(data, options, info, context));
  }

 private:
  IOStatus passed(IOStatus status) {
    if (!status.ok()) gate_.note_failure();
    return status;
  }
  LogGate& gate_;
};

class GatedFiles final : public rocksdb::FileSystemWrapper {
 public:
  GatedFiles(const std::shared_ptr<rocksdb::FileSystem>& below, LogGate& gate)
      : rocksdb::FileSystemWrapper(below), gate_(gate) {}
  const char* Name() const override { return "VerbenaGated"; }
  IOStatus NewWritableFile(const std::string& name, const rocksdb::FileOptions& options,
                           std::unique_ptr<rocksdb::FSWritableFile>* result, IODebugContext* context) override {
    IOStatus status = rocksdb::FileSystemWrapper::NewWritableFile(name, options, result, context);
    if (status.ok() && name.ends_with(".log")) *result = std::make_unique<GatedLog>(std::move(*result), gate_);
    return status;
  }

 private:
  LogGate& gate_;
};

}  // namespace

void LogGate::note_failure() {
  const std::lock_guard lock(mutex_);
  failed_ = true;
}

void LogGate::reset() {
  const std::lock_guard lock(mutex_);
  failed_ = false;
}

std::unique_ptr<rocksdb::Env> make_gated_env(rocksdb::Env* below, LogGate& gate) {
  rocksdb::Env* const env = below != nullptr ? below : rocksdb::Env::Default();
  return rocksdb::NewCompositeEnv(std::make_shared<GatedFiles>(env->GetFileSystem(), gate));
}

}  // namespace verbena::store::local
