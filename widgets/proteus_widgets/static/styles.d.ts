// The bundler takes a style sheet that a module imports into the view's own.
declare module "*.css" {}
