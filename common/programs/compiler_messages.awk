# What a compiler says about one file, and nothing about the files around it.
# Variables: path, the file as the compiler knows it; name, as the reader does.
#
# Lines that the CPU device rewrites before it compiles them are shown as they are, without a place
# in the line: that would be a place in the rewritten line. Warnings are shown if there is no error.

# Shows the message that has just ended, with the lines of source below it.
function flush(  i) {
  if (shown && (rewritten || explained)) sub(/:[0-9]+: /, ": ", message)
  if (shown) put(message)
  for (i = 1; shown && !explained && i <= lines; ++i) {
    if (!rewritten || context[i] ~ /^ *[0-9]+ \|/) put(context[i])
  }
  shown = lines = rewritten = explained = 0
}

function put(line) {
  if (is_error) print line
  else warnings = warnings line "\n"
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

# Says in other words what a compiler says of a beginner's mistake; what follows from it is left out.
function explain(  text) {
  if (message ~ /__(global|device|host)__.* does not name a type|unknown type name .__(global|device|host)__/) {
    text = "error: CUDA's words are not known: the file needs #include \"common/operations/rms_norm.hpp\", or another operation's header"
  } else if (message ~ /a function-definition is not allowed here|function definition is not allowed here/) {
    text = "error: a function begins inside of another: is there a } too few before it?"
  } else if (message ~ /variably modified type|variable length array/ && message ~ /error/) {
    text = "error: the size of an array is a constant; extern __shared__ arrays have the size that a launch asks for"
  } else if (message ~ /no matching (function for call to|constructor).*Registration<|designator order for field/) {
    text = field_error()
  } else {
    return 0
  }
  sub(/error: .*/, text, message)
  return 1
}

# Of a registration that does not fit: the first field in it that a lesson does not have, or not there.
function field_error(  known, count, i, line, field, number, last, found) {
  count = split("slug title idea regime starts_from memory launch unsupported traffic sum_depth workspace_bytes", known, " ")
  found = "error: a field of this registration has not the type that common/contract/lesson.hpp says"
  while ((getline line < path) > 0) {
    ++number
    if (line ~ /Registration</) last = 0
    if (line !~ /^ *\.[a-z_]+ *=/) continue
    field = line
    gsub(/^ *\.| *=.*/, "", field)
    for (i = count; i > 0 && known[i] != field; --i) {}
    if (i > last) { last = i; continue }
    found = i == 0 ? "error: a registration has no field ." field : "error: the field ." field " stands in front of ." known[last] ", and not behind it"
    message = name ":" number ":1: " found
    break
  }
  close(path)
  return found
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

/multiple definition of .main'/ {
  flush()
  say(name ": error: it has a main() of its own, and is to be a part of a program that has one")
  next
}

# "PATH:12:5: error: ..." (g++, clang), "PATH(12): error: ..." (nvcc), "PATH:12: ..." (the rewriter)
index($0, path) == 1 && substr($0, length(path) + 1) ~ /^[:(][0-9]/ {
  flush()
  message = name substr($0, length(path) + 1)
  sub(/ \[-[Wf][^]]*\]$/, "", message)
  sub(/ \{aka [^}]*\}/, "", message)
  if (message ~ /: note: |: +(recursively )?required (from|by)/) {
    required = message
    sub(/(:[0-9]+)?: .*/, "", required)
    if (launch != "" && message ~ /requested here/) say(required ": error: " launch)
    if (foreign != "" && message ~ /in expansion of macro/) say(required ": error: " foreign)
    foreign = ""
    next
  }
  missing()
  explained = sub(/error: #error /, "", message) || explain()
  if (message in seen) next
  seen[message] = 1
  # Such a message follows from another one, most often.
  if (message ~ /cpu_device|rmsnorm_shared_|template argument [0-9]+ is invalid/) {
    if (hidden == "") hidden = message
    next
  }
  is_error = message !~ /: warning[ :]/
  errors += is_error
  shown = is_error ? errors <= 4 && !only : 1
  if (explained) only = 1
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

# A header is refused: what follows from that is left out.
match($0, /[^\/:]*:[0-9]+:[0-9]+: error: #error /) {
  flush()
  $0 = substr($0, RSTART)
  sub(/:[0-9]+: error: #error /, ": ")
  say($0)
  only = 1
  next
}

# Any other header, of a macro or a template that the reader uses.
/^[^ ]+[:(][0-9]+[:)].* error: / && !/cpu_device/ {
  flush()
  foreign = $0
  sub(/.* error: /, "", foreign)
  sub(/ \[-W[^]]*\]$/, "", foreign)
  if (required != "" && of_header == "") of_header = required ": error: " foreign
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
  if (++errors <= 4 && !only) print text
}

END {
  flush()
  if (errors == 0) printf "%s", warnings
  if (errors > 4 && !only) printf "and %d more errors, which may follow from these\n", errors - 4
  if (errors == 0 && of_header != "") {
    print of_header
  } else if (!any && match(hidden, /[:(][0-9]+/)) {
    place = substr(hidden, 1, RSTART + RLENGTH - 1)
    print place ": error: a type, a size or an argument does not fit here"
  }
}
