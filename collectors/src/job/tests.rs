//! Jobs of every shape, as files and as real processes.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use feedline_traces::{Collector as _, Row as _, Rows, Schema, SimClock, Ts};

use crate::Host;

use super::fixture::{Fake, list_children, machine};
use super::*;

const TORCH: &str = "/opt/conda/lib/python3.12/site-packages/torch/lib/libtorch_cpu.so";

fn context(host: Host) -> Context {
    Context::new(host, Arc::new(SimClock::new(Ts(1_000_000_000))))
}

/// The roles of a job, as `PID ROLE [WORKER of TRAINER]`.
fn shown(processes: &[Process]) -> Vec<String> {
    let one = |p: &Process| match (p.worker, p.trainer) {
        (Some(n), Some(t)) => format!("{} {} {n} of {t}", p.pid, p.role.name()),
        _ => format!("{} {}", p.pid, p.role.name()),
    };
    processes.iter().map(one).collect()
}

fn roles(processes: &[Fake], root: u32) -> Vec<String> {
    let (folder, host) = machine(processes);
    let look = |host: &Host| {
        let context = context(host.clone());
        collect(&mut Jobs::new(&context, root)).unwrap();
        shown(&context.target.processes())
    };
    let found = look(&host);
    list_children(folder.path(), processes);
    assert_eq!(look(&host), found, "with the kernel's lists of children");
    found
}

fn collect(jobs: &mut Jobs) -> Result<Vec<feedline_traces::Batch>> {
    let schema = Schema::new(vec![JobRow::table()]).unwrap();
    let mut rows = Rows::new(&schema, Ts(1));
    jobs.collect(&mut rows)?;
    Ok(rows.finish())
}

fn pytorch() -> Vec<Fake> {
    let line = "/usr/bin/python3 train.py --token hunter2";
    vec![
        Fake::new(100, 1, "pt_main_thread", line).library(TORCH).threads(&["pt_autograd_0", "pt_data_pin"]),
        Fake::new(110, 100, "pt_data_worker", line).library(TORCH),
        Fake::new(111, 100, "pt_data_worker", line).library(TORCH),
        Fake::code(112, 100, "python3", "from multiprocessing.resource_tracker import main;main(3)"),
        Fake::new(113, 111, "ffmpeg", "ffmpeg -i x.mp4"),
    ]
}

#[test]
fn pytorch_names_its_workers() {
    let found = roles(&pytorch(), 100);
    assert_eq!(found, ["100 trainer", "110 worker 0 of 100", "111 worker 1 of 100", "112 helper", "113 helper"]);
}

#[test]
fn forks_of_an_old_pytorch_are_workers_though_all_names_are_alike() {
    let line = "/usr/bin/python3 train.py";
    let job = [
        Fake::new(100, 1, "python3", line).library("/usr/lib/x86_64-linux-gnu/libtorch_python.so.1.13"),
        Fake::new(110, 100, "python3", line),
        Fake::new(111, 100, "python3", line),
        Fake::new(112, 100, "git", "git status"),
    ];
    assert_eq!(roles(&job, 100), ["100 trainer", "110 worker 0 of 100", "111 worker 1 of 100", "112 helper"]);
}

#[test]
fn children_of_a_fork_server_work_for_who_runs_it() {
    let code = "from multiprocessing.forkserver import main; main(3, 5, ['__main__'])";
    let job = [
        Fake::new(100, 1, "python3", "python3.14 train.py"),
        Fake::code(101, 100, "python3", "from multiprocessing.resource_tracker import main;main(3)"),
        Fake::code(102, 100, "python3", code),
        Fake::code(103, 102, "python3", code),
        Fake::code(104, 102, "python3", code),
    ];
    let expected = ["100 trainer", "103 worker 0 of 100", "104 worker 1 of 100", "102 forkserver", "101 helper"];
    assert_eq!(roles(&job, 100), expected);
}

fn torchrun() -> Vec<Fake> {
    let launcher = "/usr/bin/python3 /usr/bin/torchrun --nproc-per-node=4 train.py";
    let mut job = vec![
        Fake::new(90, 1, "bash", "bash run.sh"),
        Fake::new(100, 90, "pt_main_thread", launcher).library(TORCH).file("/dev/nvidiactl"),
    ];
    for rank in 0..4 {
        let line = "/usr/bin/python3 -u train.py";
        let environ = format!("RANK={rank} LOCAL_RANK={rank} WORLD_SIZE=4 AWS_SECRET_ACCESS_KEY=7");
        job.push(Fake::new(110 + rank, 100, "pt_main_thread", line).library(TORCH).environ(&environ));
        for worker in 0..2 {
            job.push(Fake::new(120 + 10 * rank + worker, 110 + rank, "pt_data_worker", line));
        }
    }
    job
}

#[test]
fn a_launcher_trains_nothing_and_its_ranks_do() {
    let found = roles(&torchrun(), 100);
    assert_eq!(found[..4], ["110 trainer", "111 trainer", "112 trainer", "113 trainer"]);
    assert_eq!(found[4..6], ["120 worker 0 of 110", "121 worker 1 of 110"]);
    assert_eq!(found.last().unwrap(), "100 helper");
    assert_eq!(found.len(), 13);
    let (_folder, host) = machine(&torchrun());
    let context = context(host);
    let mut jobs = Jobs::new(&context, 90);
    let rows = collect(&mut jobs).unwrap();
    let target = context.target.processes();
    let second = target.iter().find(|p| p.pid == 111).unwrap();
    assert_eq!((second.ranks.rank, second.ranks.local, second.ranks.world), (Some(1), Some(1), Some(4)));
    let schema = Schema::new(vec![JobRow::table()]).unwrap();
    let number = |name: &str| rows[0].columns[schema.find(name).unwrap().column].number(0);
    assert_eq!((number("job.trainers"), number("job.workers"), number("job.world")), (Some(4.0), Some(8.0), Some(4.0)));
}

#[test]
fn ranks_without_any_other_sign_are_trainers() {
    let mut job = torchrun();
    job.retain(|p| p.comm != "pt_data_worker");
    for process in &mut job {
        process.comm = "python3".into();
        process.maps.clear();
    }
    let found = roles(&job, 90);
    assert_eq!(found, ["110 trainer", "111 trainer", "112 trainer", "113 trainer", "90 helper", "100 helper"]);
}

#[test]
fn spawned_ranks_are_trainers_and_their_parent_is_not() {
    let code = "from multiprocessing.spawn import spawn_main; spawn_main(tracker_fd=4, pipe_handle=6)";
    let job = [
        Fake::new(100, 1, "pt_main_thread", "python3 ddp.py").library(TORCH),
        Fake::code(101, 100, "pt_main_thread", code).library(TORCH).threads(&["pt_nccl_watchdg"]),
        Fake::code(102, 100, "pt_main_thread", code).library(TORCH).file("/dev/nvidia1"),
        Fake::code(103, 102, "pt_data_worker", code),
    ];
    assert_eq!(roles(&job, 100), ["101 trainer", "102 trainer", "103 worker 0 of 102", "100 helper"]);
}

#[test]
fn a_rank_can_start_the_others() {
    let line = "python3 lightning.py";
    let job = [
        Fake::new(100, 1, "pt_main_thread", line).library(TORCH).threads(&["pt_autograd_0"]),
        Fake::new(101, 100, "pt_main_thread", "python3 lightning.py --x").library(TORCH).environ("LOCAL_RANK=1"),
        Fake::new(102, 100, "python3", "python3 -m wandb.service"),
    ];
    assert_eq!(roles(&job, 100), ["100 trainer", "101 trainer", "102 helper"]);
}

#[test]
fn a_native_job_is_a_trainer_without_workers() {
    let job = [
        Fake::new(90, 1, "sh", "sh -c ./embedded"),
        Fake::new(100, 90, "embedded", "./embedded --data x").threads(&["reader-0", "reader-1"]),
    ];
    assert_eq!(roles(&job, 100), ["100 trainer"]);
    assert_eq!(roles(&job, 90), ["100 trainer", "90 helper"]);
}

#[test]
fn the_pid_inside_a_container_is_kept() {
    let mut job = pytorch();
    job[0].inner = Some(7);
    let (_folder, host) = machine(&job);
    let context = context(host);
    collect(&mut Jobs::new(&context, 100)).unwrap();
    assert_eq!(context.target.processes()[0].inner, Some(7));
}

#[test]
fn a_reused_pid_ends_the_job() {
    let (folder, host) = machine(&pytorch());
    let context = context(host);
    let mut jobs = Jobs::new(&context, 100);
    collect(&mut jobs).unwrap();
    assert!(!jobs.ended());
    let mut other = Fake::new(100, 1, "python3", "python3 other.py");
    other.start = 5000;
    other.write(folder.path());
    let rows = collect(&mut jobs).unwrap();
    let schema = Schema::new(vec![JobRow::table()]).unwrap();
    let state = rows[0].columns[schema.find("job.state").unwrap().column].text(0).unwrap();
    assert_eq!(state.as_ref(), "ended");
    assert!(context.target.ended() && context.target.processes().is_empty());
    assert!(collect(&mut jobs).unwrap().is_empty(), "the end is said once");
}

#[test]
fn a_worker_that_is_replaced_is_another_process() {
    let (folder, host) = machine(&pytorch());
    let context = context(host);
    let mut jobs = Jobs::new(&context, 100);
    collect(&mut jobs).unwrap();
    fs::remove_dir_all(folder.path().join("proc/110")).unwrap();
    let mut again = Fake::new(111, 100, "pt_data_worker", "/usr/bin/python3 train.py --token hunter2");
    again.start = 900;
    again.write(folder.path());
    collect(&mut jobs).unwrap();
    let keys: Vec<String> =
        context.target.processes().iter().filter(|p| p.role == Role::Worker).map(|p| p.key.to_string()).collect();
    assert_eq!(keys, ["111@900"]);
    // Gone are both old workers, and the child of one of them, which is nobody's now.
    assert_eq!((jobs.arrived, jobs.left), (6, 3));
}

#[test]
fn a_zombie_root_has_ended_and_a_missing_one_is_an_error() {
    let mut job = pytorch();
    let (folder, host) = machine(&job);
    let context = context(host);
    let mut jobs = Jobs::new(&context, 100);
    job[0].state = 'Z';
    job[0].write(folder.path());
    collect(&mut jobs).unwrap();
    assert!(jobs.ended());
    let error = collect(&mut Jobs::new(&context, 4242)).unwrap_err();
    assert_eq!(error.message, "no process 4242");
}

#[test]
fn secrets_stay_out_of_jobs_and_processes() {
    let (_folder, host) = machine(&torchrun());
    let text = format!("{:?}", find(&host));
    let context = context(host);
    collect(&mut Jobs::new(&context, 100)).unwrap();
    let text = text + &format!("{:?}", context.target.processes());
    assert!(!text.contains("SECRET") && !text.contains("nproc"), "{text}");
    let (_folder, host) = machine(&pytorch());
    assert!(!format!("{:?}", find(&host)).contains("hunter2"));
}

#[test]
fn jobs_are_found_with_their_reasons() {
    let mut all = torchrun();
    all.push(Fake::new(20, 1, "nginx", "nginx -g daemon"));
    all.push(Fake::new(21, 1, "python3", "python3 /usr/bin/networkd-dispatcher"));
    let (_folder, host) = machine(&all);
    let found = find(&host);
    assert_eq!(found.len(), 1, "{found:?}");
    let job = &found[0];
    assert_eq!((job.pid, job.name.as_str(), job.user.as_str(), job.workers), (100, "train.py", "root", 8));
    assert_eq!((job.trainers.len(), job.framework), (4, Some("pytorch")));
    assert!(job.confidence > 0.95 && job.age.is_some_and(|a| a > 99_000.0));
    assert_eq!(job.why[..2], ["2 PyTorch loader workers", "rank 0"]);
}

#[test]
fn a_job_is_resolved_by_pid_by_name_and_by_its_worker() {
    let mut all = pytorch();
    all.push(Fake::new(50, 1, "embedded", "./embedded"));
    all.push(Fake::new(51, 1, "embedded", "./embedded"));
    let (_folder, host) = machine(&all);
    for wanted in ["100", "110", "train.py", "train"] {
        assert_eq!(resolve(&host, wanted).unwrap().pid, 100, "{wanted}");
    }
    assert_eq!(resolve(&host, "50").unwrap().name, "embedded");
    let error = resolve(&host, "embed").unwrap_err();
    assert_eq!(error.message, "`embed` names 2 processes: 50 (embedded), 51 (embedded)");
    let error = resolve(&host, "4242").unwrap_err();
    assert_eq!(error.to_string(), "no process 4242\nhint: `feedline ps` lists training jobs");
    assert_eq!(resolve(&host, "nothing").unwrap_err().message, "no process named `nothing`");
}

#[test]
fn the_number_of_a_thread_is_told_from_that_of_no_process() {
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let (say, hear) = std::sync::mpsc::channel();
    let thread = std::thread::spawn(move || {
        say.send(rustix::thread::gettid().as_raw_nonzero().get()).unwrap();
        let _ = ended.recv();
    });
    let (tid, pid) = (hear.recv().unwrap(), std::process::id());
    let error = resolve(&Host::this(), &tid.to_string()).unwrap_err();
    drop(end);
    thread.join().unwrap();
    assert_eq!(error.message, format!("{tid} is a thread of process {pid}"));
    assert_eq!(error.hint.unwrap(), format!("give the process: {pid}"));
}

/// A real Python job with two children by a start method; `None` where it cannot be started.
/// `before` is what runs Python, if anything.
fn start(before: &[&str], method: &str, script: &std::path::Path) -> Option<Child> {
    let code = "import multiprocessing as mp, sys, time\n\
        def work():\n    time.sleep(30)\n\
        if __name__ == '__main__':\n    \
        context = mp.get_context(sys.argv[1])\n    \
        workers = [context.Process(target=work, daemon=True) for _ in range(2)]\n    \
        [w.start() for w in workers]\n    \
        print('ready', flush=True)\n    sys.stdin.read()\n";
    fs::write(script, code).unwrap();
    let words: Vec<&str> = before.iter().copied().chain(["python3"]).collect();
    let mut command = Command::new(words[0]);
    command.args(&words[1..]).arg(script).arg(method).stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.spawn().ok()?;
    let mut line = String::new();
    BufReader::new(child.stdout.take()?).read_line(&mut line).ok()?;
    (line == "ready\n").then_some(child)
}

#[test]
fn real_multiprocessing_children_are_workers_whatever_the_start_method() {
    for method in ["fork", "spawn", "forkserver"] {
        let folder = tempfile::tempdir().unwrap();
        let script = folder.path().join(format!("train_{method}.py"));
        let Some(mut child) = start(&[], method, &script) else { return };
        // Where `python3` is a wrapper script, the interpreter took over its pid.
        let context = context(Host::this());
        let mut jobs = Jobs::new(&context, child.id());
        // A fork server forks when asked, a moment after the parent has gone on.
        let mut workers = Vec::new();
        for _ in 0..100 {
            collect(&mut jobs).unwrap();
            workers = context.target.processes().iter().filter(|p| p.role == Role::Worker).cloned().collect();
            if workers.len() == 2 {
                break;
            }
            std::thread::sleep(std::time::Duration::from_millis(50));
        }
        let all = shown(&context.target.processes());
        assert_eq!(workers.len(), 2, "{method}: {all:?}");
        assert!(workers.iter().all(|w| w.trainer == Some(child.id()) && w.python), "{method}: {all:?}");
        let named = resolve(&Host::this(), &format!("train_{method}")).unwrap();
        assert_eq!((named.pid, named.workers), (child.id(), 2), "{method}");
        drop(child.stdin.take());
        child.wait().unwrap();
        collect(&mut jobs).unwrap();
        assert!(jobs.ended(), "{method}");
    }
}

#[test]
fn a_real_job_in_a_pid_namespace_of_its_own_is_followed_by_the_pids_seen_from_here() {
    let folder = tempfile::tempdir().unwrap();
    let script = folder.path().join("train_inside.py");
    let unshare = ["unshare", "--pid", "--fork", "--mount-proc", "--kill-child"];
    // It takes the right to make namespaces.
    let Some(mut child) = start(&unshare, "fork", &script) else { return };
    let context = context(Host::this());
    let mut jobs = Jobs::new(&context, child.id());
    collect(&mut jobs).unwrap();
    let processes = context.target.processes();
    let all = shown(&processes);
    drop(child.stdin.take());
    child.wait().unwrap();
    let trainer = processes.iter().find(|p| p.role == Role::Trainer).unwrap();
    assert!(trainer.pid != child.id() && trainer.inner.is_some(), "{all:?}");
    let workers: Vec<_> = processes.iter().filter(|p| p.role == Role::Worker).collect();
    assert_eq!(workers.len(), 2, "{all:?}");
    assert!(workers.iter().all(|w| w.trainer == Some(trainer.pid) && w.inner != Some(w.pid)), "{all:?}");
}
