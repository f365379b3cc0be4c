"""The pages. Views, forms, presenters and access: no rules and no models live here."""
