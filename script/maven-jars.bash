# Sourced by the scripts that print a directory with jars, which Maven fetches once.
# The script has set `libs`, the directory.

artifacts=

# use_ready GLOB NAME [VARIABLE]: if the directory holds a jar like GLOB, prints it and ends.
# Where VARIABLE names the directory it must be ready: without a jar of NAME, that is an error.
use_ready() {
    wanted=$1
    if compgen -G "$libs/$wanted" >/dev/null; then
        echo "$libs"
        exit
    fi
    if [ -n "${3:-}" ] && [ -n "${!3:-}" ]; then
        echo "$3=${!3} holds no $2 jar" >&2
        exit 1
    fi
}

# artifact GROUP NAME VERSION [alone]: is to be fetched, and what it depends on, unless "alone".
artifact() {
    local exclusions=
    if [ "${4:-}" = alone ]; then
        exclusions="<exclusions><exclusion><groupId>*</groupId><artifactId>*</artifactId></exclusion></exclusions>"
    fi
    artifacts+="<dependency><groupId>$1</groupId><artifactId>$2</artifactId><version>$3</version>$exclusions</dependency>"
}

# begin TITLE: a folder $work until the script ends, for what Maven is to fetch.
begin() {
    command -v mvn >/dev/null || { echo "Maven (mvn) is not installed" >&2; exit 1; }
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
    echo "Fetching $1 with Maven ..." >&2
}

# end: what was fetched is the directory, which is printed.
end() {
    mkdir -p "$(dirname "$libs")"
    # Two runs at once: whoever renames first wins, and the other uses the winner's.
    mv -T "$work/libs" "$libs" 2>/dev/null || true
    compgen -G "$libs/$wanted" >/dev/null
    echo "$libs"
}

# fetch_archive TITLE GROUP:NAME:VERSION:TYPE:CLASSIFIER: fetches this one thing, which is no jar.
fetch_archive() {
    begin "$1"
    mvn -q -B dependency:copy -Dartifact="$2" -DoutputDirectory="$work/libs" >&2
    end
}

# fetch TITLE: fetches the artifacts into the directory, and prints it.
fetch() {
    begin "$1"
    cat >"$work/pom.xml" <<POM
<project xmlns="http://maven.apache.org/POM/4.0.0">
  <modelVersion>4.0.0</modelVersion>
  <groupId>drumlin</groupId><artifactId>$(basename "$0")</artifactId><version>1</version>
  <dependencies>$artifacts</dependencies>
</project>
POM
    mvn -q -B -f "$work/pom.xml" dependency:copy-dependencies -DoutputDirectory="$work/libs" >&2
    end
}
