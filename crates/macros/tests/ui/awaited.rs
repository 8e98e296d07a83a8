//! A call of a blocking client that is awaited.

#[stoop::interface]
trait Greeter {
    fn greet(&self, name: &str) -> String;
}

async fn greet(greeter: &GreeterClient) -> Result<String, stoop::CallError> {
    greeter.greet("world").await
}

fn main() {}
