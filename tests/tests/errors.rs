//! What goes wrong outside of Millrace: it says so clearly, in bounded time, and nothing panics.

#![allow(clippy::disallowed_methods)]

use std::{
    fs,
    path::Path,
    process::{Command, Stdio},
    time::{Duration, Instant},
};

use anyhow::{Context, Result, bail};
use millrace_tests::{
    client::{Client, Reply},
    job::{Job, Shape, spec},
    postgres::Postgres,
    process,
    service::{Service, binary, free_port},
};
use reqwest::Method;
use serde_json::{Value, json};

const SHAPE: Shape = Shape {
    parallelism: 1,
    workers: 1,
    checkpoint_interval: Duration::from_millis(200),
};
const PATIENCE: Duration = Duration::from_secs(30);

/// A script that compiles anywhere and ends by itself.
const GOOD: &str =
    "CREATE TABLE out (a INT) WITH ('connector' = 'blackhole'); INSERT INTO out VALUES (1);";

/// A problem document with this status and code, whose detail holds all `words`.
fn expect(what: &str, reply: &Reply, status: u16, code: &str, words: &[&str]) -> Result<()> {
    let body = &reply.body;
    let complete = reply.content_type.starts_with("application/problem+json")
        && body["status"] == status
        && body["type"]
            .as_str()
            .is_some_and(|kind| kind.ends_with(code))
        && body["title"]
            .as_str()
            .is_some_and(|title| !title.is_empty())
        && !reply.detail().is_empty();
    let text = body.to_string();
    if reply.status != status
        || reply.code() != code
        || !complete
        || !words.iter().all(|word| text.contains(word))
    {
        bail!(
            "{what}: expected {status} {code} with {words:?}, answered {} ({}): {text}",
            reply.status,
            reply.content_type
        );
    }
    Ok(())
}

fn finish(failures: Vec<String>, service: &Service) -> Result<()> {
    let mut failures = failures;
    failures.extend(service.panics());
    for failure in &failures {
        eprintln!("---- {failure}");
    }
    if failures.is_empty() {
        Ok(())
    } else {
        bail!("{} failures", failures.len())
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_requests_are_problems_with_a_code() -> Result<()> {
    let root = tempfile::tempdir()?;
    let service = Service::up(root.path()).await?;
    let client = service.client();
    let mut failures = Vec::new();
    let mut check = |result: Result<()>| {
        if let Err(error) = result {
            failures.push(format!("{error:#}"));
        }
    };
    let jobs = Client::path("jobs");
    let created = client
        .post(&jobs, &json!({"name": "good", "sql": GOOD}))
        .await?;
    let etag = created.etag.clone().context("a job has an ETag")?;
    created.ok()?;
    Job::existing(client, "good")
        .wait_for("finished", PATIENCE)
        .await?;

    // Specs.
    for (what, body, code, words) in [
        (
            "unknown field",
            json!({"name": "a", "sql": GOOD, "paralelism": 2}),
            "invalid-spec",
            vec!["paralelism"],
        ),
        (
            "unknown nested field",
            json!({"name": "a", "sql": GOOD, "checkpointing": {"intervall": "1 s"}}),
            "invalid-spec",
            vec!["checkpointing", "intervall"],
        ),
        (
            "bad duration",
            json!({"name": "a", "sql": GOOD, "checkpointing": {"interval": "soon"}}),
            "invalid-spec",
            vec!["checkpointing.interval", "soon"],
        ),
        (
            "no name",
            json!({"sql": GOOD}),
            "invalid-spec",
            vec!["name"],
        ),
        (
            "bad name",
            json!({"name": "a b/c", "sql": GOOD}),
            "invalid-spec",
            vec!["name"],
        ),
        (
            "parallelism 0",
            json!({"name": "a", "sql": GOOD, "parallelism": 0}),
            "invalid-spec",
            vec!["parallelism"],
        ),
        (
            "too many workers",
            json!({"name": "a", "sql": GOOD, "resources": {"workers": 2}}),
            "invalid-spec",
            vec!["resources.workers"],
        ),
        (
            "negative parallelism",
            json!({"name": "a", "sql": GOOD, "parallelism": -1}),
            "invalid-spec",
            vec!["parallelism"],
        ),
        (
            "huge parallelism",
            json!({"name": "a", "sql": GOOD, "parallelism": 4_294_967_296_u64}),
            "invalid-spec",
            vec!["parallelism"],
        ),
        (
            "empty script",
            json!({"name": "a", "sql": " "}),
            "invalid-spec",
            vec!["sql"],
        ),
        (
            "bad script",
            json!({"name": "a", "sql": "INSERT INTO nowhere SELECT 1"}),
            "invalid-sql",
            vec!["nowhere", "\"line\":1"],
        ),
        ("a list", json!([1, 2]), "invalid-spec", vec![]),
    ] {
        let reply = client.post(&jobs, &body).await?;
        check(expect(what, &reply, 422, code, &words));
    }
    let deep_sql = format!(
        "INSERT INTO out SELECT {}1{}",
        "(".repeat(100_000),
        ")".repeat(100_000)
    );
    let reply = client
        .post(&jobs, &json!({"name": "a", "sql": deep_sql}))
        .await?;
    check(expect("deep SQL", &reply, 422, "invalid-sql", &[]));

    // Bodies.
    let json_type = ("content-type", "application/json");
    let post = |headers: Vec<(&'static str, &'static str)>, body: Vec<u8>| {
        let jobs = jobs.clone();
        async move { client.send(Method::POST, &jobs, &headers, Some(body)).await }
    };
    check(expect(
        "broken JSON",
        &post(vec![json_type], b"{\"name\": ".to_vec()).await?,
        400,
        "malformed-body",
        &["line"],
    ));
    check(expect(
        "not UTF-8",
        &post(vec![json_type], b"\xff\xfe{}".to_vec()).await?,
        400,
        "malformed-body",
        &[],
    ));
    check(expect(
        "deep JSON",
        &post(vec![json_type], vec![b'['; 1_000_000]).await?,
        400,
        "malformed-body",
        &[],
    ));
    check(expect(
        "no content type",
        &post(vec![], b"{}".to_vec()).await?,
        415,
        "unsupported-media-type",
        &[],
    ));
    check(expect(
        "XML",
        &post(vec![("content-type", "text/xml")], b"<a/>".to_vec()).await?,
        415,
        "unsupported-media-type",
        &["text/xml"],
    ));
    let yaml = post(
        vec![("content-type", "application/yaml")],
        b"name: a\nsql: x\nfoo: 1\n".to_vec(),
    )
    .await?;
    check(expect(
        "unknown YAML field",
        &yaml,
        422,
        "invalid-spec",
        &["foo"],
    ));
    let large = json!({"name": "a", "sql": "-".repeat(10 << 20)});
    check(expect(
        "10 MB",
        &client.post(&jobs, &large).await?,
        413,
        "body-too-large",
        &[],
    ));

    // Things that are not there.
    let uuid = "0190b3c2-7b1e-7c00-8000-3f6f2f0d9a11";
    for (what, path, status, code) in [
        (
            "job by name",
            Client::path("jobs/none"),
            404,
            "job-not-found",
        ),
        (
            "job by id",
            Client::path(&format!("jobs/{uuid}")),
            404,
            "job-not-found",
        ),
        (
            "workers of no job",
            Client::path("jobs/none/workers"),
            404,
            "job-not-found",
        ),
        (
            "output of no job",
            Client::path("jobs/none/output"),
            404,
            "job-not-found",
        ),
        (
            "checkpoint",
            Client::path("jobs/good/checkpoints/999"),
            404,
            "checkpoint-not-found",
        ),
        (
            "checkpoint that is no number",
            Client::path("jobs/good/checkpoints/x"),
            400,
            "invalid-parameter",
        ),
        (
            "savepoint",
            Client::path("jobs/good/savepoints/999"),
            404,
            "savepoint-not-found",
        ),
        (
            "savepoint beyond 64 bits",
            Client::path("jobs/good/savepoints/99999999999999999999"),
            400,
            "invalid-parameter",
        ),
        (
            "savepoint beyond a database's numbers",
            Client::path("jobs/good/savepoints/18446744073709551615"),
            404,
            "savepoint-not-found",
        ),
        (
            "version",
            Client::path("jobs/good/versions/7"),
            404,
            "version-not-found",
        ),
        (
            "execution",
            Client::path(&format!("jobs/good/executions/{uuid}")),
            404,
            "execution-not-found",
        ),
        (
            "execution that is no id",
            Client::path("jobs/good/executions/1"),
            400,
            "invalid-parameter",
        ),
        (
            "tenant",
            "/api/v1/tenants/nobody/jobs".to_owned(),
            404,
            "tenant-not-found",
        ),
        ("path", "/api/v1/nothing".to_owned(), 404, "route-not-found"),
        (
            "limit 0",
            Client::path("jobs?limit=0"),
            400,
            "invalid-parameter",
        ),
        (
            "limit of letters",
            Client::path("jobs?limit=x"),
            400,
            "invalid-parameter",
        ),
        (
            "cursor",
            Client::path("jobs?cursor=zzz"),
            400,
            "invalid-cursor",
        ),
        (
            "state",
            Client::path("jobs?state=walking"),
            400,
            "invalid-parameter",
        ),
        (
            "unknown parameter",
            Client::path("jobs?limitt=1"),
            400,
            "invalid-parameter",
        ),
    ] {
        check(expect(what, &client.get(&path).await?, status, code, &[]));
    }
    let reply = client
        .send(Method::DELETE, "/api/v1/version", &[], None)
        .await?;
    check(expect(
        "method",
        &reply,
        405,
        "method-not-allowed",
        &["DELETE"],
    ));

    // Changes that come too late or make no sense.
    let good = Client::path("jobs/good");
    let patch = json!({"checkpointing": {"interval": "3 s"}});
    let reply = client.json(Method::PATCH, &good, &[], &patch).await?;
    check(expect("no If-Match", &reply, 428, "if-match-required", &[]));
    client
        .json(Method::PATCH, &good, &[("if-match", &etag)], &patch)
        .await?
        .ok()?;
    let reply = client
        .json(Method::PATCH, &good, &[("if-match", &etag)], &patch)
        .await?;
    check(expect(
        "stale If-Match",
        &reply,
        412,
        "version-mismatch",
        &[],
    ));
    let rename = json!({"name": "better"});
    let reply = client
        .json(Method::PATCH, &good, &[("if-match", "*")], &rename)
        .await?;
    check(expect("new name", &reply, 422, "invalid-spec", &["name"]));
    let groups = json!({"max-parallelism": 12});
    let reply = client
        .json(Method::PATCH, &good, &[("if-match", "*")], &groups)
        .await?;
    check(expect(
        "other key groups",
        &reply,
        422,
        "invalid-spec",
        &["max-parallelism"],
    ));
    let again = json!({"name": "good", "sql": GOOD});
    check(expect(
        "taken name",
        &client.post(&jobs, &again).await?,
        409,
        "name-taken",
        &["good"],
    ));
    let stop = Client::path("jobs/good/stop");
    check(expect(
        "stop what has ended",
        &client.post(&stop, &json!({})).await?,
        409,
        "invalid-transition",
        &[],
    ));
    check(expect(
        "stop how?",
        &client.post(&stop, &json!({"mode": "gently"})).await?,
        422,
        "invalid-spec",
        &["gently"],
    ));
    let start = Client::path("jobs/good/start");
    let from = json!({"from": {"savepoint": 77}});
    check(expect(
        "start from nothing",
        &client.post(&start, &from).await?,
        404,
        "savepoint-not-found",
        &["77"],
    ));
    let keyed = |body: Value| {
        let jobs = jobs.clone();
        async move {
            client
                .json(Method::POST, &jobs, &[("idempotency-key", "k1")], &body)
                .await
        }
    };
    let first = keyed(json!({"name": "keyed", "sql": GOOD})).await?;
    let second = keyed(json!({"name": "keyed", "sql": GOOD})).await?;
    if (first.status, second.status) != (201, 200) || first.body["id"] != second.body["id"] {
        check(Err(anyhow::anyhow!("idempotency: {first:?} {second:?}")));
    }
    let third = keyed(json!({"name": "other", "sql": GOOD})).await?;
    check(expect(
        "reused key",
        &third,
        422,
        "idempotency-key-reused",
        &[],
    ));
    let foreign = post(
        vec![json_type, ("origin", "http://evil.example")],
        b"{}".to_vec(),
    )
    .await?;
    check(expect(
        "another web page",
        &foreign,
        403,
        "foreign-origin",
        &[],
    ));
    finish(failures, &service)
}

/// A job that reads `file` and writes to `out`.
fn copy(file: &Path, format: &str, out: &Path) -> String {
    format!(
        "CREATE TABLE src (id INT, x DOUBLE) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = '{format}');
         CREATE TABLE snk (id INT, x DOUBLE) WITH ('connector' = 'filesystem', 'path' = '{}', 'format' = 'json');
         INSERT INTO snk SELECT id, x FROM src;",
        file.display(),
        out.display()
    )
}

/// The job does not finish; what the service says about it holds all `words`.
async fn expect_failure(client: &Client, name: &str, sql: &str, words: &[&str]) -> Result<()> {
    let mut spec = spec(name, sql, SHAPE);
    spec["restart"]["degraded-after"] = json!(2);
    let reply = client.post(&Client::path("jobs"), &spec).await?;
    if (400..500).contains(&reply.status) {
        // Refused at once is as good.
        let text = reply.body.to_string();
        if let Some(word) = words.iter().find(|word| !text.contains(**word)) {
            bail!("{name}: {text} does not say {word}");
        }
        return Ok(());
    }
    reply.ok()?;
    let job = Job::existing(client, name);
    let deadline = Instant::now() + PATIENCE;
    loop {
        let view = job.view().await?;
        let reason = view["reason"].as_str().unwrap_or("").to_owned();
        let settled = view["condition"] == "degraded" || view["state"] == "failed";
        if settled && words.iter().all(|word| reason.contains(word)) {
            let stop = client
                .post(
                    &Client::path(&format!("jobs/{name}/stop")),
                    &json!({"mode": "now"}),
                )
                .await?;
            if view["state"] != "failed" {
                stop.ok().context("a degraded job can be stopped")?;
            }
            return Ok(());
        }
        if view["state"] == "finished" {
            bail!("{name}: the job finished");
        }
        if Instant::now() > deadline {
            bail!(
                "{name}: expected a reason with {words:?}, the job says: {view}\n{}",
                job.history().await
            );
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn bad_files_and_disks_are_named() -> Result<()> {
    let root = tempfile::tempdir()?;
    let service = Service::up(root.path()).await?;
    let client = service.client();
    let at = |name: &str| root.path().join(name);
    fs::write(
        at("bad.ndjson"),
        "{\"id\":1,\"x\":1}\n{\"id\":2,\"x\":2}\n{\"id\":3,\"x\":\"three\"}\n",
    )?;
    fs::write(at("bad.csv"), "id,x\n1,1\n2,two\n")?;
    fs::write(at("header.csv"), "id,y\n1,1\n")?;
    fs::write(at("not.parquet"), "this is text")?;
    fs::write(at("good.ndjson"), "{\"id\":1,\"x\":1}\n".repeat(40_000))?;
    fs::write(at("file"), "")?;
    let out = at("out");
    let mut failures = Vec::new();
    for (name, sql, words) in [
        (
            "bad-json",
            copy(&at("bad.ndjson"), "json", &out),
            vec!["bad.ndjson", "line 3", "`x`", "DOUBLE", "three"],
        ),
        (
            "bad-csv",
            copy(&at("bad.csv"), "csv", &out),
            vec!["bad.csv", "line 3", "`x`", "DOUBLE", "two"],
        ),
        (
            "bad-header",
            copy(&at("header.csv"), "csv", &out),
            vec!["header.csv", "x"],
        ),
        (
            "bad-parquet",
            copy(&at("not.parquet"), "parquet", &out),
            vec!["not.parquet"],
        ),
        (
            "missing-file",
            copy(&at("missing.ndjson"), "json", &out),
            vec!["missing.ndjson"],
        ),
        (
            "blocked-directory",
            copy(&at("good.ndjson"), "json", &at("file").join("below")),
            vec!["file"],
        ),
    ] {
        if let Err(error) = expect_failure(client, name, &sql, &words).await {
            failures.push(format!("{error:#}"));
        }
    }
    match SmallDisk::mount(&at("small")) {
        Ok(disk) => {
            let sql = copy(&at("good.ndjson"), "json", &disk.path);
            if let Err(error) =
                expect_failure(client, "full-disk", &sql, &["small", "No space left"]).await
            {
                failures.push(format!("{error:#}"));
            }
            // With room again the job goes on by itself or after a start; the service is unharmed.
            let reply = client.get(&Client::path("jobs/full-disk")).await?;
            reply.ok()?;
        }
        Err(error) => eprintln!("no full disk without root and mount: {error:#}"),
    }
    finish(failures, &service)
}

/// A file system of 64 KiB.
struct SmallDisk {
    path: std::path::PathBuf,
}

impl SmallDisk {
    fn mount(path: &Path) -> Result<Self> {
        if !process::is_root() {
            bail!("not root");
        }
        fs::create_dir_all(path)?;
        let mut command = Command::new("mount");
        command
            .args(["-t", "tmpfs", "-o", "size=64k", "tmpfs"])
            .arg(path);
        run(&mut command)?;
        Ok(SmallDisk {
            path: path.to_path_buf(),
        })
    }
}

impl Drop for SmallDisk {
    fn drop(&mut self) {
        // Lazily: a worker may still hold a file.
        let _ = run(Command::new("umount").arg("-l").arg(&self.path));
    }
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output().context("cannot run the command")?;
    if !output.status.success() {
        bail!(
            "{}",
            String::from_utf8_lossy(&output.stderr).trim().to_owned()
        );
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_database_that_is_down_at_start_is_waited_for() -> Result<()> {
    let root = tempfile::tempdir()?;
    process::open_to_all(root.path())?;
    let postgres = Postgres::start(root.path())?;
    postgres.crash()?;
    let port = free_port()?;
    let log = root.path().join("service.log");
    let file = fs::File::create(&log)?;
    let mut child = Command::new(binary()?)
        .args([
            "control-plane",
            "--database-url",
            &postgres.url(),
            "--data-dir",
        ])
        .arg(root.path().join("data"))
        .args(["--listen", &format!("127.0.0.1:{port}")])
        .stdin(Stdio::null())
        .stdout(file.try_clone()?)
        .stderr(file)
        .spawn()?;
    let client = Client::new(&format!("http://127.0.0.1:{port}"))?;
    let result = wait_for_database(&client, &postgres).await;
    // Whatever came of it, the process must not outlive the test.
    child.kill()?;
    child.wait()?;
    let log = fs::read_to_string(&log)?;
    if log.contains("panicked at") {
        bail!("{log}");
    }
    result.with_context(|| format!("log of the service:\n{log}"))
}

async fn wait_for_database(client: &Client, postgres: &Postgres) -> Result<()> {
    let deadline = Instant::now() + PATIENCE;
    let reply = loop {
        match client.get(&Client::path("jobs")).await {
            Ok(reply) => break reply,
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => tokio::time::sleep(Duration::from_millis(50)).await,
        }
    };
    if !matches!(reply.code(), "not-ready" | "database-unavailable") {
        bail!("without a database: {reply:?}");
    }
    let code = reply.code().to_owned();
    expect(
        "jobs without a database",
        &reply,
        503,
        &code,
        &["retryAfter"],
    )?;
    if client.get("/healthz").await?.status != 200 || client.is_ready().await {
        bail!("the process lives and is not ready: /healthz and /readyz should say so");
    }
    postgres.launch()?;
    while !client.is_ready().await {
        if Instant::now() > deadline {
            bail!("the database is there, the service is not ready");
        }
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    client.get(&Client::path("jobs")).await?.ok()?;
    // And away again while the service runs.
    postgres.crash()?;
    let begun = Instant::now();
    let reply = client.get(&Client::path("jobs")).await?;
    expect(
        "jobs after a crash",
        &reply,
        503,
        "database-unavailable",
        &["retryAfter"],
    )?;
    if begun.elapsed() > Duration::from_secs(25) {
        bail!("the answer took {:?}", begun.elapsed());
    }
    postgres.launch()?;
    while !client
        .get(&Client::path("jobs"))
        .await
        .is_ok_and(|reply| reply.status == 200)
    {
        if Instant::now() > deadline + PATIENCE {
            bail!("the database is back, the service does not use it");
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    Ok(())
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn the_command_line_says_what_is_wrong() -> Result<()> {
    let root = tempfile::tempdir()?;
    let service = Service::up(root.path()).await?;
    let script = root.path().join("bad.sql");
    fs::write(
        &script,
        "CREATE TABLE t (a INT) WITH ('connector' = 'datagen');\nSELECT b FROM t;\n",
    )?;
    let script = script.display().to_string();
    let data_dir = service.data_dir().display().to_string();
    let listen = service
        .client()
        .base()
        .trim_start_matches("http://")
        .to_owned();
    let other_dir = root.path().join("other").display().to_string();
    let file = root.path().join("file");
    fs::write(&file, "")?;
    let file = file.display().to_string();
    let mut failures = Vec::new();
    for (arguments, code, words) in [
        (
            vec!["sql", "validate", &script],
            2,
            vec!["unknown-column", ":2:8", "`b`"],
        ),
        (vec!["sql", "explain", &script], 2, vec!["unknown-column"]),
        (vec!["run", &script], 2, vec!["unknown-column"]),
        (vec!["run", "/nowhere/x.sql"], 2, vec!["/nowhere/x.sql"]),
        (
            vec!["jobs", "get", "none", "--server", service.client().base()],
            1,
            vec!["none"],
        ),
        (
            vec!["jobs", "list", "--server", "http://127.0.0.1:1"],
            1,
            vec!["127.0.0.1:1", "millrace up"],
        ),
        (vec!["jobs", "lst"], 2, vec!["list"]),
        (
            vec!["up", "--data-dir", &data_dir, "--listen", "127.0.0.1:0"],
            1,
            vec!["uses", "--data-dir"],
        ),
        (
            vec!["up", "--data-dir", &other_dir, "--listen", &listen],
            1,
            vec!["listen", "--listen"],
        ),
        (
            vec!["up", "--data-dir", &file, "--listen", "127.0.0.1:0"],
            1,
            vec!["data directory"],
        ),
    ] {
        if let Err(error) = expect_exit(&arguments, code, &words).await {
            failures.push(format!("millrace {}: {error:#}", arguments.join(" ")));
        }
    }
    finish(failures, &service)
}

async fn expect_exit(arguments: &[&str], code: i32, words: &[&str]) -> Result<()> {
    let mut command = tokio::process::Command::new(binary()?);
    command
        .args(arguments)
        .stdin(Stdio::null())
        .kill_on_drop(true);
    let output = tokio::time::timeout(PATIENCE, command.output())
        .await
        .context("it hangs")??;
    let text = format!(
        "{}{}",
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    if output.status.code() != Some(code)
        || text.contains("panicked at")
        || !words.iter().all(|word| text.contains(word))
    {
        bail!(
            "expected exit code {code} and {words:?}, got {}: {text}",
            output.status
        );
    }
    Ok(())
}
