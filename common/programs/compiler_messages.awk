# What a compiler says about one file, and nothing about the files around it.
# Variables: path, the file as the compiler knows it; name, as the reader does.
#
# Lines that the CPU device rewrites before it compiles them are shown as they are, without a place
# in the line: that would be a place in the rewritten line.

# Shows the message that has just ended, with the lines of source below it.
function flush(  i) {
  if (shown && rewritten) sub(/:[0-9]+: /, ": ", message)
  if (shown) print message
  for (i = 1; shown && i <= lines; ++i) {
    if (!rewritten || context[i] ~ /^ *[0-9]+ \|/) print context[i]
  }
  shown = lines = rewritten = 0
}

# What of CUDA the CPU device lacks, by its name: "error: '__vadd4' was not declared in this scope".
function missing(  word) {
  if (message !~ /was not declared in this scope|undeclared identifier|is not a member of [^a-z]*(cuda|cub|cooperative_groups)/) return
  word = message
  sub(/.*error: [^A-Za-z_]*(use of undeclared identifier [^A-Za-z_]*)?/, "", word)
  sub(/[^A-Za-z0-9_:].*/, "", word)
  if (message !~ /is not a member of/ && word !~ /^(__|cuda)/) return
  sub(/error: .*/, "error: the CPU device has no " word, message)
}

# A static_assert of the CPU device, "launch: ...", is about the line of the launch. g++ names that
# before, clang behind it.
/static(_assert| assertion) failed.*launch: / {
  flush()
  launch = $0
  sub(/^.*launch: /, "", launch)
  gsub(/"/, "", launch)
  if (!/due to requirement/) say(required ": error: " launch)
  next
}

{ sub(/^[^ ]*\/ld: /, "") }  # the linker says first who it is

# "PATH:12:5: error: ..." (g++, clang), "PATH(12): error: ..." (nvcc), "PATH:12: ..." (the rewriter)
index($0, path) == 1 && substr($0, length(path) + 1) ~ /^[:(][0-9]/ {
  flush()
  message = name substr($0, length(path) + 1)
  sub(/ \[-W[^]]*\]$/, "", message)
  if (message ~ /: note: |: +(recursively )?required (from|by)/) {
    required = message
    sub(/(:[0-9]+)?: .*/, "", required)
    if (launch != "" && message ~ /requested here/) say(required ": error: " launch)
    next
  }
  missing()
  if (message in seen) next
  seen[message] = 1
  # Such a message follows from another one, most often.
  if (message ~ /cpu_device|rmsnorm_shared_|template argument [0-9]+ is invalid/) {
    if (hidden == "") hidden = message
    next
  }
  is_error = message !~ /: warning[ :]/
  errors += is_error
  shown = is_error ? errors <= 4 : !errors
  any = 1
  next
}

# A header of the CPU device says it, of a line of the reader's.
match($0, /static assertion failed: the CPU device has no .*/) && required != "" {
  flush()
  sub(/.*static assertion failed: /, "")
  say(required ": error: " $0)
  next
}

/^ / {
  context[++lines] = $0
  if (/^ *[0-9]+ \|/ && /__shared__|<<</) rewritten = 1
  next
}

{ flush() }

# A message of our own.
function say(text) {
  launch = ""
  if (text in seen) return
  seen[text] = any = 1
  if (++errors <= 4) print text
}

END {
  flush()
  if (errors > 4) printf "and %d more errors, which may follow from these\n", errors - 4
  if (!any && match(hidden, /[:(][0-9]+/)) {
    place = substr(hidden, 1, RSTART + RLENGTH - 1)
    print place ": error: a type, a size or an argument does not fit here"
  }
}
