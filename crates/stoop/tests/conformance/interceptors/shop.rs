//! A server with procedures of each kind, and interceptors that write down what they see.

use super::*;

#[stoop::interface]
pub(super) trait Shop {
    fn next(&self, number: u32) -> u32;
    #[idempotent]
    fn look(&self) -> u32;
    fn panic(&self);
    fn wait(&self);
    fn later(&self) -> Deferred<u32>;
    #[one_way]
    fn tell(&self, number: u32);
    fn fill(&self, #[out] bytes: &mut [u8]);
}

#[derive(Clone, Default)]
pub(super) struct Keeper {
    pub(super) gate: Gate,
    pub(super) ran: Arc<AtomicU32>,
    pub(super) reply: Arc<Mutex<Option<Reply<u32>>>>,
}

impl Shop for Keeper {
    fn next(&self, number: u32) -> u32 {
        self.ran.fetch_add(1, Ordering::SeqCst);
        number + 1
    }
    fn look(&self) -> u32 {
        self.ran.fetch_add(1, Ordering::SeqCst)
    }
    fn panic(&self) {
        panic!("on purpose");
    }
    fn wait(&self) {
        self.gate.pass();
    }
    fn later(&self) -> Deferred<u32> {
        let (reply, deferred) = deferred();
        *self.reply.lock().unwrap() = Some(reply);
        deferred
    }
    fn tell(&self, _: u32) {
        self.ran.fetch_add(1, Ordering::SeqCst);
    }
    fn fill(&self, bytes: &mut [u8]) {
        bytes.fill(7);
    }
}

pub(super) type Log = Arc<Mutex<Vec<String>>>;

/// Writes down what it sees, and does what it is told.
pub(super) struct Witness<B, A> {
    pub(super) name: &'static str,
    pub(super) log: Log,
    pub(super) before: B,
    pub(super) after: A,
}

impl<B, A> Intercept for Witness<B, A>
where
    B: Fn(&mut CallInfo<'_>) -> Before + Send + Sync + 'static,
    A: Fn(&CallInfo<'_>, &Ended<'_>) -> After + Send + Sync + 'static,
{
    fn name(&self) -> &str {
        self.name
    }
    fn before(&self, call: &mut CallInfo<'_>) -> Before {
        self.log.lock().unwrap().push(format!("{} before {}", self.name, call.procedure()));
        (self.before)(call)
    }
    fn after(&self, call: &CallInfo<'_>, ended: &Ended<'_>) -> After {
        let known = if ended.is_known() { "" } else { ", as far as is known" };
        let line = format!("{} after {}: ran {:?}{known}", self.name, call.procedure(), ended.ran());
        self.log.lock().unwrap().push(line);
        (self.after)(call, ended)
    }
}

pub(super) fn go(_: &mut CallInfo<'_>) -> Before {
    Before::Go
}

pub(super) fn done(_: &CallInfo<'_>, _: &Ended<'_>) -> After {
    After::Return
}

pub(super) fn witness(name: &'static str, log: &Log) -> impl Intercept + use<> {
    Witness { name, log: Arc::clone(log), before: go, after: done }
}

pub(super) fn with_before(
    name: &'static str,
    log: &Log,
    before: impl Fn(&mut CallInfo<'_>) -> Before + Send + Sync + 'static,
) -> impl Intercept {
    Witness { name, log: Arc::clone(log), before, after: done }
}

pub(super) fn with_after(
    name: &'static str,
    log: &Log,
    after: impl Fn(&CallInfo<'_>, &Ended<'_>) -> After + Send + Sync + 'static,
) -> impl Intercept {
    Witness { name, log: Arc::clone(log), before: go, after }
}

pub(super) fn taken(log: &Log) -> Vec<String> {
    std::mem::take(&mut *log.lock().unwrap())
}

pub(super) fn shop(
    transport: &str,
    server: Server,
    options: &BindOptions,
) -> (RunningServer, Keeper, ShopClient) {
    let keeper = Keeper::default();
    let server = server.export(ShopServer::new(keeper.clone()));
    let server = server.listen_there(&address(transport)).unwrap().start().unwrap();
    let client = ShopClient::bind_with(&server.uris()[0], options).unwrap();
    (server, keeper, client)
}
