"""The built-in list of protected files: files with secrets, files that run by themselves, and instructions for agents.

A change to such a file does more than the plan shows, because a later build, commit, login or agent session uses the
file. So a plan may change it only with an approval that names it. A configuration can add globs, but not remove any.

Each glob matches at any depth, and ignores case. Limit: a name that ordinary folders also have is not listed, such as
Bazel's `BUILD` without a suffix. A workspace that needs such a name adds it to its configuration.
"""

from typing import Final, Literal, NamedTuple

Group = Literal["critical", "important", "agent_system"]


class ProtectedKind(NamedTuple):
    """One row of the list: its group, the kind of the files, and their globs."""

    group: Group
    what: str
    globs: tuple[str, ...]


def _kind(group: Group, what: str, globs: str) -> ProtectedKind:
    return ProtectedKind(group, what, tuple(globs.split()))


PROTECTED_FILES: Final = (
    _kind("critical", "Version control", ".git/** .hg/** .svn/** .jj/**"),
    _kind(
        "critical",
        "Environment files and secrets",
        ".env .env.* credentials.json secrets.* .env* *.env *.tfvars *.tfvars.json *.tfstate *.tfstate.*",
    ),
    _kind(
        "critical",
        "Keys and certificates",
        "*.pem *.key *.p8 *.p12 *.pfx *.jks *.keystore *.ppk *.kdbx id_rsa* id_dsa* id_ecdsa* id_ed25519*"
        " authorized_keys .ssh/** .gnupg/**",
    ),
    _kind(
        "critical",
        "Logins of tools",
        ".netrc _netrc .npmrc .yarnrc .yarnrc.yml .pypirc .git-credentials .htpasswd .pgpass .my.cnf .vault-token"
        " .aws/** .azure/** .config/gcloud/** .kube/** kubeconfig kubeconfig.* *.kubeconfig .docker/config.json"
        " .dockercfg .cargo/credentials* .gem/credentials application_default_credentials.json service-account*.json"
        " credentials.tfrc.json .config/gh/hosts.yml",
    ),
    _kind(
        "important",
        "Python projects",
        "requirements.txt pyproject.toml setup.py setup.cfg requirements*.txt requirements/*.txt requirements/*.in"
        " requirements*.in constraints*.txt Pipfile environment.yml environment.yaml MANIFEST.in tox.ini noxfile.py"
        " pytest.ini conftest.py hatch.toml hatch_build.py pixi.toml uv.toml pip.conf sitecustomize.py"
        " usercustomize.py *.pth",
    ),
    _kind(
        "important",
        "JavaScript and TypeScript projects",
        "package.json pnpm-workspace.yaml .pnpmfile.* .yarn/** bunfig.toml deno.json deno.jsonc lerna.json nx.json"
        " turbo.json *.config.js *.config.cjs *.config.mjs *.config.ts *.config.cts *.config.mts .eslintrc* .babelrc*"
        " gulpfile.* Gruntfile.*",
    ),
    _kind(
        "important",
        "Projects of other languages",
        "Cargo.toml build.rs .cargo/** rust-toolchain rust-toolchain.toml go.mod go.work pom.xml .mvn/** mvnw mvnw.cmd"
        " *.gradle *.gradle.kts gradle.properties gradlew gradlew.bat gradle/wrapper/** build.xml *.sbt deps.edn"
        " project.clj mix.exs rebar.config composer.json Gemfile *.gemspec Rakefile Podfile Cartfile Fastfile"
        " Package.swift pubspec.yaml build.zig build.zig.zon *.cabal cabal.project stack.yaml dune-project *.opam"
        " *.csproj *.fsproj *.vbproj *.vcxproj *.sln *.slnx *.targets Directory.Build.* Directory.Packages.props"
        " nuget.config global.json packages.config",
    ),
    _kind(
        "important",
        "Builds and task runners",
        "Makefile Makefile.* GNUmakefile *.mk CMakeLists.txt *.cmake CMakePresets.json CMakeUserPresets.json"
        " meson.build meson_options.txt meson.options configure configure.ac configure.in *.bzl *.bazel .bazelrc"
        " .bazelversion SConstruct SConscript wscript Justfile .justfile Taskfile.* mise.toml .mise.toml"
        " .tool-versions",
    ),
    _kind(
        "important",
        "Containers, machines and deployments",
        "Dockerfile Dockerfile.* *.Dockerfile Containerfile Containerfile.* docker-compose*.yml docker-compose*.yaml"
        " compose.yml compose.yaml compose.*.yml compose.*.yaml docker-bake.* Vagrantfile Tiltfile skaffold.yaml"
        " Chart.yaml *.tf *.tf.json *.nix Procfile netlify.toml vercel.json fly.toml render.yaml",
    ),
    _kind(
        "important",
        "Lock files",
        "*.lock *.lockfile package-lock.json npm-shrinkwrap.json pnpm-lock.yaml bun.lockb packages.lock.json go.sum"
        " go.work.sum Package.resolved pylock.toml pylock.*.toml conda-lock.yml .terraform.lock.hcl",
    ),
    _kind(
        "important",
        "Continuous integration",
        ".github/workflows/** .github/actions/** .github/dependabot.yml .github/dependabot.yaml CODEOWNERS action.yml"
        " action.yaml .gitlab-ci.yml .gitlab-ci.yaml *.gitlab-ci.yml .gitlab/** Jenkinsfile Jenkinsfile.*"
        " *.jenkinsfile .circleci/** azure-pipelines*.yml azure-pipelines*.yaml .azure-pipelines/** .travis.yml"
        " .travis.yaml .buildkite/** .drone.* bitbucket-pipelines.yml .woodpecker.* .woodpecker/** appveyor.yml"
        " .appveyor.yml .cirrus.* .teamcity/** .semaphore/** cloudbuild.yml cloudbuild.yaml buildspec.yml"
        " buildspec.yaml .gitea/workflows/** .forgejo/workflows/** .tekton/** .build.yml .builds/** .ci/**"
        " codemagic.yaml bitrise.yml renovate.json renovate.json5 .renovaterc* .readthedocs.yml .readthedocs.yaml",
    ),
    _kind(
        "important",
        "Hooks and settings of version control",
        ".pre-commit-config.yaml .pre-commit-config.yml .pre-commit-hooks.yaml .githooks/** .git-hooks/** .husky/**"
        " lefthook.* lefthook-local.* .lefthook.* .lefthook-local.* .lefthook/** .overcommit.yml .lintstagedrc*"
        " .gitattributes .gitmodules .gitconfig .hgrc",
    ),
    _kind(
        "important",
        "Editors and development environments",
        ".vscode/** *.code-workspace .idea/** .devcontainer/** .devcontainer.json .zed/** .fleet/** .vs/**"
        " *.sublime-project .vimrc .nvimrc .nvim.lua .exrc .dir-locals.el .gitpod.yml .replit",
    ),
    _kind(
        "important",
        "Start files of shells and programs",
        ".bashrc .bash_profile .bash_login .bash_logout .bash_aliases .profile .zshrc .zshenv .zprofile .zlogin"
        " .zlogout .kshrc .cshrc .tcshrc .login .inputrc .config/fish/** .config/systemd/** .config/autostart/**"
        " .xinitrc .xprofile crontab .gdbinit .lldbinit .Rprofile .irbrc .pryrc .psqlrc .sqliterc .duckdbrc .curlrc"
        " .wgetrc .tmux.conf .screenrc profile.ps1 *_profile.ps1",
    ),
    _kind(
        "agent_system",
        "Instructions for agents",
        "agent/agent_rules.md agent_inspector/agent_inspector.md agent_executor/agent_executor.md CLAUDE.md"
        " CLAUDE.local.md AGENTS.md AGENTS.*.md AGENT.md GEMINI.md QWEN.md WARP.md SKILL.md .cursorrules"
        " .windsurfrules .continuerules .clinerules/** .roorules* .rules .goosehints .augment-guidelines"
        " .openhands_instructions .github/copilot-instructions.md *.instructions.md *.prompt.md *.chatmode.md"
        " *.agent.md *.mdc",
    ),
    _kind(
        "agent_system",
        "Settings of agents, and their tools",
        ".mcp.json mcp.json mcp.*.json mcp_config.json mcp_settings.json cline_mcp_settings.json"
        " claude_desktop_config.json .claude.json .claude/** .cursor/** .cursorignore .codex/** .gemini/** .aider*"
        " .copilot/** .github/instructions/** .github/prompts/** .github/agents/** .github/chatmodes/**"
        " .github/copilot/** .windsurf/** .codeium/** .continue/** .continuerc.json .cline/** .roo/** .roomodes"
        " .kilocode/** .kilocodemodes .augment/** .junie/** .kiro/** .amazonq/** .goose/** .opencode/** opencode.json"
        " opencode.jsonc .openhands/** .trae/** .qwen/** .qodo/** .pr_agent.toml .crush/** crush.json .crush.json"
        " .factory/** .devin/** .agent/** .agents/** .ai/**",
    ),
)


def built_in_globs(group: Group) -> tuple[str, ...]:
    """Return the globs of one group, in the order of the list."""
    return tuple(dict.fromkeys(glob for kind in PROTECTED_FILES if kind.group == group for glob in kind.globs))
