# cmake -DFOLDER=... -DFILES=a;b -DOUTPUT=x.cc -P embed.cmake: files, compressed, as a source of admin/ (console.h).
# gzip -n leaves out name and time, so equal files give equal bytes.
set(arrays "")
set(entries "")
set(index 0)
foreach(name ${FILES})
  set(packed ${OUTPUT}.${index}.gz)
  execute_process(COMMAND gzip -9nc ${FOLDER}/${name} OUTPUT_FILE ${packed} COMMAND_ERROR_IS_FATAL ANY)
  file(READ ${packed} bytes HEX)
  file(REMOVE ${packed})
  string(LENGTH "${bytes}" digits)
  math(EXPR size "${digits} / 2")
  string(REGEX REPLACE "(..)" "\\\\x\\1" bytes "${bytes}")
  # Lines of 64 bytes: a compiler reads them faster than numbers.
  string(REGEX REPLACE "(................................................................................................................................................................................................................................................................)" "\\1\"\n    \"" bytes "${bytes}")
  file(SHA256 ${FOLDER}/${name} hash)
  string(SUBSTRING "${hash}" 0 32 hash)
  string(APPEND arrays "constexpr char file_${index}[] =\n    \"${bytes}\";\n")
  string(APPEND entries "    ConsoleFile{\"${name}\", \"\\\"${hash}\\\"\", {file_${index}, ${size}}},\n")
  math(EXPR index "${index} + 1")
endforeach()
file(WRITE ${OUTPUT} "#include <array>\n\n#include \"admin/console.h\"\n\nnamespace verbena::admin {\nnamespace {\n\n${arrays}
constexpr std::array files = {\n${entries}};\n\n}  // namespace\n
std::span<const ConsoleFile> console_files() { return files; }\n\n}  // namespace verbena::admin\n")
