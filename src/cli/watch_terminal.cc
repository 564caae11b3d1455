#include "cli/watch_terminal.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdint>
#include <cstdio>
#include <utility>
#include <vector>

namespace verbena::cli {
namespace {

volatile sig_atomic_t end_noted = 0;

void note_end(int) { end_noted = 1; }

struct Character {
  uint32_t code = 0;
  size_t bytes = 1;
  bool sound = false;
};

// The first character of a non-empty text (RFC 3629: no overlong forms, no surrogates).
Character first_of(std::string_view text) {
  const auto byte = [&](size_t i) { return static_cast<uint8_t>(text[i]); };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return {lead, 1, true};
  const size_t size = lead >= 0xf0 ? 4 : lead >= 0xe0 ? 3 : lead >= 0xc2 ? 2 : 0;
  if (size == 0 || lead > 0xf4 || text.size() < size) return {lead, 1, false};
  uint32_t code = lead & (0xff >> (size + 1));
  for (size_t i = 1; i < size; ++i) {
    if ((byte(i) & 0xc0) != 0x80) return {lead, 1, false};
    code = code << 6 | (byte(i) & 0x3f);
  }
  constexpr uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
  const bool sound = code >= least[size] && code <= 0x10ffff && (code < 0xd800 || code > 0xdfff);
  return sound ? Character{code, size, true} : Character{lead, 1, false};
}

bool steers(uint32_t code) {
  constexpr std::pair<uint32_t, uint32_t> ranges[] = {
      {0x00, 0x1f},     {0x7f, 0x9f},     {0xad, 0xad},     {0x061c, 0x061c}, {0x180e, 0x180e},   {0x200b, 0x200f},
      {0x2028, 0x202e}, {0x2060, 0x206f}, {0xfeff, 0xfeff}, {0xfff9, 0xfffb}, {0xe0000, 0xe0fff},
  };
  return std::ranges::any_of(ranges, [&](const auto& range) { return code >= range.first && code <= range.second; });
}

// At most: Hangul, CJK and emoji take two, and begin there; narrow ones behind them are counted as two as well.
size_t columns_of(uint32_t code) { return code < 0x1100 ? 1 : 2; }

}  // namespace

std::string shown(std::string_view text, size_t most) {
  struct Piece {  // an escape, or one character
    std::string text;
    size_t columns;
  };
  std::vector<Piece> pieces;
  const auto escape = [&](std::string escaped) { pieces.push_back({escaped, escaped.size()}); };
  while (!text.empty()) {
    const Character c = first_of(text);
    if (!c.sound || (c.code < 0x80 && steers(c.code))) {
      escape(fmt::format("\\x{:02x}", c.code));
    } else if (steers(c.code)) {
      escape(fmt::format("\\u{{{:x}}}", c.code));
    } else if (c.code == '\\') {
      escape("\\\\");
    } else {
      pieces.push_back({std::string(text.substr(0, c.bytes)), columns_of(c.code)});
    }
    text.remove_prefix(c.bytes);
  }
  size_t all = 0, begin = 0;
  for (const Piece& piece : pieces) all += piece.columns;
  std::string out;
  if (most != 0 && all > most) {
    const size_t room = most > 3 ? most - 3 : 0;
    for (; all > room; ++begin) all -= pieces[begin].columns;
    out = "...";
  }
  for (size_t i = begin; i < pieces.size(); ++i) out += pieces[i].text;
  return out;
}

std::string for_output(std::string_view text) {
  static const bool terminal = ::isatty(STDOUT_FILENO) == 1;
  return terminal ? shown(text) : std::string(text);
}

bool put_lines(std::string_view text) {
  return std::fwrite(text.data(), 1, text.size(), stdout) == text.size() && std::fflush(stdout) == 0;
}

void note_ends() {
  struct sigaction action{};
  action.sa_handler = note_end;
  action.sa_flags = static_cast<int>(SA_RESETHAND);
  ::sigaction(SIGINT, &action, nullptr);
  ::sigaction(SIGTERM, &action, nullptr);
}

bool end_was_asked_for() { return end_noted != 0; }

bool Screen::possible() { return ::isatty(STDIN_FILENO) == 1 && ::isatty(STDOUT_FILENO) == 1; }

Screen::Screen() {
  ::tcgetattr(STDIN_FILENO, &before_);
  termios raw = before_;
  raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
  ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  put_lines("\x1b[?1049h\x1b[?25l");
}

Screen::~Screen() {
  put_lines("\x1b[?25h\x1b[?1049l");
  ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
}

void Screen::draw(const std::string& text) {
  winsize size{};
  const bool known = ::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) == 0 && size.ws_row > 0 && size.ws_col > 0;
  const size_t rows = known ? size.ws_row : 24, columns = known ? size.ws_col : 80;
  std::string page = "\x1b[H";
  size_t row = 0;
  for (std::string_view rest = text; !rest.empty() && row < rows; ++row) {
    std::string_view line = rest.substr(0, rest.find('\n'));
    rest.remove_prefix(std::min(line.size() + 1, rest.size()));
    // Columns, not bytes: names may be of any script.
    size_t end = 0;
    for (size_t column = 0; end < line.size();) {
      const Character c = first_of(line.substr(end));
      column += columns_of(c.code);
      if (column > columns) break;
      end += c.bytes;
    }
    page.append(row == 0 ? "" : "\r\n").append(line.substr(0, end)).append("\x1b[K");
  }
  put_lines(page + "\x1b[J");
}

bool Screen::rest(std::chrono::milliseconds time) {
  const auto until = std::chrono::steady_clock::now() + time;
  while (!end_was_asked_for()) {
    const auto left = std::chrono::duration_cast<std::chrono::milliseconds>(until - std::chrono::steady_clock::now());
    if (left.count() <= 0) return true;
    pollfd input{.fd = STDIN_FILENO, .events = POLLIN, .revents = 0};
    const int ready = ::poll(&input, 1, static_cast<int>(left.count()));
    if (ready < 0 && errno != EINTR) return false;
    if (ready <= 0) continue;
    char key = 0;
    if (::read(STDIN_FILENO, &key, 1) != 1 || key == 'q' || key == 'Q' || key == 4) return false;
  }
  return false;
}

}  // namespace verbena::cli
