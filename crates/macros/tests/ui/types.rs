//! Types that cannot travel.

#[stoop::interface]
trait Types {
    fn raw_pointer(&self, at: *const u8);
    fn function(&self, callback: fn(u8) -> u8);
    fn anything(&self, value: impl Copy);
    fn object(&self, value: Box<dyn Fn()>);
    fn borrowed_object(&self, value: &dyn Fn());
    fn inferred(&self, value: _);
    fn slice(&self, values: [u8]);
    fn text(&self, text: Box<(str, u8)>);
    fn itself(&self, other: Self);
    fn nested_reference(&self, names: Vec<&str>);
    fn named_lifetime(&self, name: &'static str);
}

fn main() {}
