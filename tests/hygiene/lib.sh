# Shared by the hygiene scripts. Each looks at the tree in KVANT_ROOT, prints every offence as "file:line: text" with the
# rule, and fails if there is one, or if it found nothing to look at.
set -euo pipefail
cd "${KVANT_ROOT:?KVANT_ROOT must name the source tree}"

offences=0
offence() { printf '%s\n' "$*"; offences=$((offences + 1)); }

# sources FOLDER...: the C++ files below these folders
sources() { find "$@" \( -name '*.cpp' -o -name '*.hpp' \) -type f 2>/dev/null | sort; }

# files: what git tracks; without git (an unpacked archive) everything but the folders that git ignores
files() {
  if git rev-parse --is-inside-work-tree >/dev/null 2>&1 && [[ $(git rev-parse --show-toplevel) == "$PWD" ]]; then
    git ls-files | while read -r file; do [[ ! -e $file ]] || printf '%s\n' "$file"; done
  else
    find . -mindepth 1 \( -path ./.git -o -path ./.deps -o -path ./build -o -path ./runs \) -prune -o -type f -printf '%P\n' | sort
  fi
}

finish() {  # RULE COUNT
  if (($2 == 0)); then printf 'There was nothing to look at: is KVANT_ROOT (%s) the source tree?\n' "$KVANT_ROOT"; exit 1; fi
  if ((offences)); then printf '\n%d offence(s). The rule: %s\n' "$offences" "$1"; exit 1; fi
  printf '%d looked at, no offence. The rule: %s\n' "$2" "$1"
}
