//! Downloads from the hub: the ordinary case and everything that goes wrong on the way.

use std::fs;
use std::net::TcpListener;

use crate::machine::{Machine, Said, content, sha256};
use crate::server::{Reply, Server};

const NAME: &str = "hf:owner/repo/folder/model.gguf";
const FILE: &str = "hub/owner/repo/main/folder/model.gguf";

/// A server that breaks the first answer off after `cut` bytes and behaves from then on.
fn breaks_once(body: &[u8], tag: &str, cut: usize) -> Server {
    let (body, tag) = (body.to_vec(), tag.to_owned());
    Server::start(move |request, before| {
        let reply = Reply::file(request, &body, &tag);
        if before == 0 { reply.cut(cut) } else { reply }
    })
}

#[test]
fn a_file_is_pulled_checked_and_then_kept() {
    let body = content(300_000, 1);
    let tag = sha256(&body);
    let server = Server::start({
        let body = body.clone();
        move |request, _| Reply::file(request, &body, &tag)
    });
    let machine = Machine::new(&format!("{}/", server.address));
    let said = machine.run(&["pull", NAME]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(said.stdout.trim_end(), machine.cache().join(FILE).to_str().unwrap());
    let path = machine.cache().join(FILE);
    assert_eq!(said.stderr, format!("fetching {NAME} into {}\npulled {NAME} (300 kB)\n", path.display()));
    assert_eq!(machine.cached(), [FILE]);
    assert_eq!(machine.read(FILE), body);
    assert_eq!(server.requests()[0].path, "/owner/repo/resolve/main/folder/model.gguf");

    let said = machine.run(&["pull", "--json", NAME]);
    assert_eq!(said.stderr, format!("have {NAME} (300 kB)\n"));
    let json: serde_json::Value = serde_json::from_str(&said.stdout).unwrap();
    let expected = serde_json::json!({ "models": [{
        "name": NAME,
        "path": machine.cache().join(FILE),
        "bytes": 300_000,
        "sha256": sha256(&body),
        "status": "kept",
    }]});
    assert_eq!(json, expected);
    assert_eq!(server.summary(), ["GET all", "HEAD all"]);
}

#[test]
fn another_version_on_the_hub_replaces_the_copy() {
    let bodies = [content(1000, 1), content(1000, 2)];
    let server = Server::start({
        let bodies = bodies.clone();
        move |request, before| {
            let body = &bodies[before.min(1)];
            Reply::file(request, body, &sha256(body))
        }
    });
    let machine = Machine::new(&server.address);
    for body in &bodies {
        assert_eq!(machine.run(&["pull", NAME]).code, Some(0));
        assert_eq!(machine.read(FILE), *body);
    }
    assert_eq!(server.summary(), ["GET all", "HEAD all", "GET all"]);
}

#[test]
fn a_broken_connection_is_continued() {
    let body = content(400_000, 2);
    let server = breaks_once(&body, &sha256(&body), 250_000);
    let machine = Machine::new(&server.address);
    let said = machine.run(&["pull", NAME]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(machine.read(FILE), body);
    assert_eq!(server.summary(), ["GET all", "GET bytes=250000-"]);
    assert_eq!(server.requests()[1].header("if-range"), Some(format!("\"{}\"", sha256(&body)).as_str()));
    assert!(said.stderr.contains("\nwarning: ") && said.stderr.contains("trying again"), "{said:?}");
}

#[test]
fn a_later_run_continues_and_notices_another_version() {
    let old = content(50_000, 3);
    for (new, range) in [(old.clone(), "GET bytes=20000-"), (content(50_000, 4), "GET bytes=20000-")] {
        let (first, tag) = (old.clone(), sha256(&old));
        // The first server dies in the middle and is then gone for good.
        let dying = Server::start(move |request, before| match before {
            0 => Reply::file(request, &first, &tag).cut(20_000),
            _ => Reply::new(404, b""),
        });
        let machine = Machine::new(&dying.address);
        machine.run(&["pull", NAME]).assert_error("the hub has no hf:owner/repo/folder/model.gguf");
        assert_eq!(machine.cached(), [format!("{FILE}.partial"), format!("{FILE}.partial.json")]);
        assert_eq!(machine.read(&format!("{FILE}.partial")), old[..20_000]);

        let (body, tag) = (new.clone(), sha256(&new));
        let healthy = Server::start(move |request, _| Reply::file(request, &body, &tag));
        let machine = machine.with_endpoint(&healthy.address);
        let said = machine.run(&["pull", NAME]);
        assert_eq!(said.code, Some(0), "{said:?}");
        assert_eq!(healthy.summary(), [range]);
        assert_eq!(machine.read(FILE), new);
        assert_eq!(machine.cached(), [FILE]);
    }
}

#[test]
fn a_pull_that_stopped_before_its_last_step_needs_no_bytes() {
    let body = content(5000, 5);
    let (served, tag) = (body.clone(), sha256(&body));
    let server = Server::start(move |request, _| Reply::file(request, &served, &tag));
    let machine = Machine::new(&server.address);
    let partial = machine.cache().join(format!("{FILE}.partial"));
    fs::create_dir_all(partial.parent().unwrap()).unwrap();
    fs::write(&partial, &body).unwrap();
    let note = serde_json::json!({ "hub": sha256(&body), "server": format!("\"{}\"", sha256(&body)) });
    fs::write(machine.cache().join(format!("{FILE}.partial.json")), note.to_string()).unwrap();
    let said = machine.run(&["pull", NAME]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(server.summary(), ["GET bytes=5000-"]);
    assert_eq!(machine.read(FILE), body);
}

#[test]
fn a_server_without_ranges_starts_over() {
    let body = content(100_000, 6);
    let server = Server::start({
        let body = body.clone();
        move |_, before| {
            let reply = Reply::new(200, &body).header("etag", format!("\"{}\"", sha256(&body)));
            if before == 0 { reply.cut(70_000) } else { reply }
        }
    });
    let machine = Machine::new(&server.address);
    assert_eq!(machine.run(&["pull", NAME]).code, Some(0));
    assert_eq!(server.summary(), ["GET all", "GET bytes=70000-"]);
    assert_eq!(machine.read(FILE), body);
}

#[test]
fn a_server_that_names_no_version_is_not_continued() {
    let body = content(100_000, 7);
    let server = Server::start({
        let body = body.clone();
        move |_, before| if before == 0 { Reply::new(200, &body).cut(70_000) } else { Reply::new(200, &body) }
    });
    let machine = Machine::new(&server.address);
    assert_eq!(machine.run(&["pull", NAME]).code, Some(0));
    assert_eq!(server.summary(), ["GET all", "GET all"]);
    assert_eq!(machine.read(FILE), body);
}

#[test]
fn a_range_that_was_not_asked_for_is_not_used() {
    let body = content(100_000, 8);
    let server = Server::start({
        let body = body.clone();
        move |request, before| match before {
            0 => Reply::file(request, &body, &sha256(&body)).cut(70_000),
            // Just as many bytes as are missing, but others.
            1 => Reply::new(206, &body[60_000..90_000])
                .header("content-range", "bytes 60000-89999/100000")
                .header("etag", format!("\"{}\"", sha256(&body))),
            _ => Reply::file(request, &body, &sha256(&body)),
        }
    });
    let machine = Machine::new(&server.address);
    let said = machine.run(&["pull", NAME]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(server.summary(), ["GET all", "GET bytes=70000-", "GET all"]);
    assert_eq!(machine.read(FILE), body);
}

#[test]
fn the_token_stays_with_the_hub_across_redirects() {
    let body = content(80_000, 9);
    let tag = sha256(&body);
    // As the hub does it: its answer names the file's hash and size, another server has the bytes under
    // a tag of its own.
    let storage = breaks_once(&body, "storage-tag", 30_000);
    let elsewhere = format!("{}/bytes?signature=a%2Fb", storage.address);
    let hub = Server::start(move |request, _| {
        if request.path.starts_with("/owner/") {
            return Reply::new(307, b"").header("location", "/renamed/repo/resolve/main/model.gguf");
        }
        Reply::new(302, b"moved")
            .header("location", elsewhere.clone())
            .header("x-linked-etag", format!("\"{tag}\""))
            .header("x-linked-size", "80000")
    });
    let machine = Machine::new(&hub.address).with_token("hf_secret");
    let said = machine.run(&["pull", NAME]);
    assert_eq!(said.code, Some(0), "{said:?}");
    assert_eq!(machine.read(FILE), body);
    assert_eq!(hub.requests().len(), 4);
    for request in hub.requests() {
        assert_eq!(request.header("authorization"), Some("Bearer hf_secret"));
    }
    assert_eq!(storage.summary(), ["GET all", "GET bytes=30000-"]);
    for request in storage.requests() {
        assert_eq!(
            (request.path.as_str(), request.header("authorization")),
            ("/bytes?signature=a%2Fb", None)
        );
    }
    assert!(!said.stderr.contains("hf_secret"));
}

/// 0.0.0.0 leads to this machine, but is no address of this machine alone.
#[cfg(unix)]
#[test]
fn the_token_does_not_go_out_in_clear() {
    let hub = Server::start(|request, before| match before {
        0 => Reply::file(request, b"open to all", &sha256(b"open to all")),
        _ => Reply::new(401, b""),
    });
    let endpoint = hub.address.replace("127.0.0.1", "0.0.0.0");
    let machine = Machine::new(&endpoint).with_token("hf_secret");
    let said = machine.run(&["pull", NAME]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let warning = format!("warning: HF_TOKEN is not sent to {endpoint}, where it could be read on the way");
    assert!(said.stderr.contains(&warning), "{said:?}");
    machine.run(&["pull", "hf:o/r/gated.gguf"]).assert_error("HF_TOKEN is not sent over http");
    assert_eq!(hub.requests().len(), 2);
    assert!(hub.requests().iter().all(|request| request.header("authorization").is_none()));
}

#[test]
fn content_with_the_wrong_hash_is_refused() {
    let server = Server::start(|request, _| Reply::file(request, b"not it", &sha256(b"it")));
    let machine = Machine::new(&server.address);
    machine.run(&["pull", NAME]).assert_error(&format!("but the hub says {}", sha256(b"it")));
    assert!(machine.cached().is_empty(), "{:?}", machine.cached());
}

#[test]
fn refusals_say_what_to_do() {
    for (status, token, words) in [
        (
            404,
            None,
            "the hub has no hf:owner/repo/folder/model.gguf (or no repository owner/repo with a revision main)",
        ),
        (401, None, "owner/repo is private, gated or does not exist: set HF_TOKEN"),
        (401, Some("hf_old"), "owner/repo: the hub does not accept HF_TOKEN"),
        (403, Some("hf_new"), "owner/repo: access is not granted"),
        (418, None, "the server answered 418"),
    ] {
        let server = Server::start(move |_, _| Reply::new(status, b"<html>no</html>"));
        let mut machine = Machine::new(&server.address);
        if let Some(token) = token {
            machine = machine.with_token(token);
        }
        machine.run(&["pull", NAME]).assert_error(words);
        assert_eq!(server.requests().len(), 1);
        assert!(!machine.cached().contains(&FILE.to_owned()));
    }
}

#[test]
fn a_busy_server_is_asked_again_but_not_for_ever() {
    let body = content(1000, 10);
    let server = Server::start(move |request, before| match before {
        0..3 => Reply::new(503, b"").header("retry-after", "0"),
        _ => Reply::file(request, &body, &sha256(&body)),
    });
    assert_eq!(Machine::new(&server.address).run(&["pull", NAME]).code, Some(0));
    assert_eq!(server.requests().len(), 4);

    let server = Server::start(|_, _| Reply::new(429, b"").header("retry-after", "0"));
    Machine::new(&server.address).run(&["pull", NAME]).assert_error("the server answered 429");
    assert_eq!(server.requests().len(), 6);
}

#[test]
fn redirects_in_a_circle_end() {
    let server = Server::start(|_, _| Reply::new(302, b"").header("location", "/round"));
    Machine::new(&server.address).run(&["pull", NAME]).assert_error("more than 10 redirects");
}

#[test]
fn all_parts_of_a_split_file_are_pulled() {
    let server = Server::start(|request, _| {
        let body = request.path.as_bytes();
        Reply::file(request, body, &sha256(body))
    });
    let machine = Machine::new(&server.address);
    let said = machine.run(&["pull", "hf:o/r@v2/m-00002-of-00003.gguf"]);
    assert_eq!(said.code, Some(0), "{said:?}");
    let first = machine.cache().join("hub/o/r/v2/m-00001-of-00003.gguf");
    assert_eq!(said.stdout.trim_end(), first.to_str().unwrap());
    let parts = [1, 2, 3].map(|part| format!("hub/o/r/v2/m-0000{part}-of-00003.gguf"));
    assert_eq!(machine.cached(), parts);
    assert_eq!(machine.read(&parts[2]), b"/o/r/resolve/v2/m-00003-of-00003.gguf");
}

#[test]
fn without_a_hub_a_copy_is_kept_and_a_new_file_is_an_error() {
    // A port that was free a moment ago.
    let nobody = format!("http://{}", TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap());
    let machine = Machine::new(&nobody);
    machine.run(&["pull", NAME]).assert_error(&format!("cannot reach {nobody}"));
    let path = machine.cache().join(FILE);
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    fs::write(&path, b"mine").unwrap();
    let said = machine.run(&["pull", NAME]);
    assert_eq!((said.code, said.stdout.trim_end()), (Some(0), path.to_str().unwrap()), "{said:?}");
    assert!(said.stderr.contains("warning: keeping "), "{said:?}");
}

#[test]
fn two_pulls_at_once_share_one_download() {
    let body = content(200_000, 11);
    let server = Server::start(move |request, _| {
        std::thread::sleep(std::time::Duration::from_millis(300));
        Reply::file(request, &body, &sha256(&body))
    });
    let machine = Machine::new(&server.address);
    let pull = || Said::from(machine.command(&["pull", NAME]).output().unwrap());
    let both = std::thread::scope(|scope| {
        [scope.spawn(pull), scope.spawn(pull)].map(|started| started.join().unwrap())
    });
    for said in &both {
        assert_eq!(said.code, Some(0), "{said:?}");
    }
    assert_eq!(both[0].stdout, both[1].stdout);
    assert_eq!(server.summary(), ["GET all", "HEAD all"]);
    assert_eq!(machine.cached(), [FILE]);
}

#[test]
fn a_bad_endpoint_is_one_line() {
    Machine::new("hub.example").run(&["pull", NAME]).assert_error("HF_ENDPOINT must start with https://");
    Machine::new("http://").run(&["pull", NAME]).assert_error("hf:owner/repo/folder/model.gguf");
}
